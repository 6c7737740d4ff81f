package trickle.lake;

import java.util.Iterator;
import java.util.Set;

/** A set of whole numbers that is asked millions of times: open addressing, at most half full. */
final class Numbers {
  final boolean hasNull;
  private final long[] slots;
  private final boolean[] taken;
  private final int mask;

  Numbers(Set values) {
    hasNull = values.contains(null);
    mask = Integer.highestOneBit(Math.max(values.size(), 8)) * 4 - 1;
    slots = new long[mask + 1];
    taken = new boolean[mask + 1];
    for (Iterator each = values.iterator(); each.hasNext(); ) {
      Number value = (Number) each.next();
      if (value == null) continue;
      int at = slot(value.longValue());
      while (taken[at] && slots[at] != value.longValue()) at = (at + 1) & mask;
      slots[at] = value.longValue();
      taken[at] = true;
    }
  }

  boolean has(long value) {
    int at = slot(value);
    while (taken[at]) {
      if (slots[at] == value) return true;
      at = (at + 1) & mask;
    }
    return false;
  }

  private int slot(long value) {
    long mixed = value * 0x9E3779B97F4A7C15L;
    return (int) (mixed >>> 32) & mask;
  }
}
