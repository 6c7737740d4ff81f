package trickle.lake;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/** Values of files, which never change, in LRU caches: whole columns of small files, and parts of other columns. */
final class KeptColumns {

  // Refreshes leave small files behind, and an aggregate may be one altogether. Reading such a file again costs more
  // than keeping its values. Files never change.
  private static final int SMALL_FILE = 20000;
  private static final int CACHED_CELLS = 1000000;
  private static final long SMALL_BYTES = 4000000;
  /** By file, then by column: an LRU cache of the values of whole columns, of so many cells in all. */
  private static final Map SMALL_FILES = new LinkedHashMap(16, 0.75f, true);
  private static long cachedCells = 0;

  /** The whole columns of a small file; null if it is not small. */
  static Object[][] small(FileIO io, DataFile file, Columns asked, Budget budget) throws Exception {
    if (file.recordCount() > SMALL_FILE || file.fileSizeInBytes() > SMALL_BYTES) return null;
    int rows = (int) file.recordCount();
    Map known = new HashMap();
    synchronized (SMALL_FILES) {
      Map cached = (Map) SMALL_FILES.get(keyOf(file));
      if (cached != null) known.putAll(cached);
    }
    Object[][] found = new Object[asked.fields.length][];
    boolean all = true;
    for (int c = 0; c < found.length; c++) {
      found[c] = (Object[]) known.get(keyOf(asked, c));
      all = all && found[c] != null;
    }
    if (all) return found;
    ParquetFileReader reader = Pages.open(io, file, asked, null, budget);
    try {
      List blocks = reader.getFooter().getBlocks();
      for (int c = 0; c < found.length; c++) {
        if (found[c] != null) continue;
        found[c] = new Object[rows];
        int start = 0;
        for (int b = 0; b < blocks.size(); b++) {
          int count = (int) ((BlockMetaData) blocks.get(b)).getRowCount();
          long[] every = new long[count];
          for (int r = 0; r < count; r++) every[r] = r;
          Object[] part = Pages.values(reader, b, asked.fields[c], asked.types[c], every, budget);
          System.arraycopy(part, 0, found[c], start, count);
          start += count;
        }
        if (start != rows) throw new Unsuited("another number of rows");
        keepColumn(file, keyOf(asked, c), found[c]);
      }
    } finally {
      reader.close();
    }
    return found;
  }

  /** The type has the ids of nested fields, too. */
  static String keyOf(Columns asked, int c) {
    return asked.fields[c].fieldId() + " " + asked.fields[c].type() + " " + asked.types[c];
  }

  static String keyOf(DataFile file) {
    return file.location() + " " + file.fileSizeInBytes() + " " + file.recordCount();
  }

  static void keepColumn(DataFile file, String column, Object[] values) {
    synchronized (SMALL_FILES) {
      Map columns = (Map) SMALL_FILES.get(keyOf(file));
      if (columns == null) {
        SMALL_FILES.put(keyOf(file), columns = new HashMap());
        columns.put("", Long.valueOf(0));
      }
      if (columns.put(column, values) == null) {
        // A cell of a long text is more than one.
        long weight = values.length + file.fileSizeInBytes() / 64;
        columns.put("", Long.valueOf(((Long) columns.get("")).longValue() + weight));
        cachedCells += weight;
      }
      Iterator eldest = SMALL_FILES.values().iterator();
      while (cachedCells > CACHED_CELLS && SMALL_FILES.size() > 1) {
        cachedCells -= ((Long) ((Map) eldest.next()).get("")).longValue();
        eldest.remove();
      }
    }
  }

  /**
   * The values of columns at some positions: a change of a source is read by every stream table over it. An LRU cache of
   * the last positions of each column, of so many cells in all; a long text is more than one.
   */
  static class Parts {
    private static final long CELLS = 200000;
    private final Map kept = new LinkedHashMap(16, 0.75f, true);
    private long cells = 0;

    synchronized Object[] get(String column, long[] positions) {
      Object[] known = (Object[]) kept.get(column);
      return known == null || !Arrays.equals((long[]) known[0], positions) ? null : (Object[]) known[1];
    }

    synchronized void put(String column, long[] positions, Object[] values) {
      long weight = weight(values);
      if (weight < 0 || weight > CELLS / 20) return;
      Object[] before = (Object[]) kept.put(column, new Object[] {positions, values, Long.valueOf(weight)});
      cells += weight - (before == null ? 0 : ((Long) before[2]).longValue());
      Iterator eldest = kept.values().iterator();
      while (cells > CELLS) {
        cells -= ((Long) ((Object[]) eldest.next())[2]).longValue();
        eldest.remove();
      }
    }

    /** Less than 0: nobody knows. */
    private static long weight(Object[] values) {
      long found = 0;
      for (int i = 0; i < values.length; i++) {
        Object value = values[i];
        found++;
        if (value instanceof UTF8String) found += ((UTF8String) value).numBytes() / 64;
        else if (value instanceof byte[]) found += ((byte[]) value).length / 64;
        else if (value != null && !(value instanceof Number || value instanceof Boolean || value instanceof Decimal)) {
          return -1;
        }
      }
      return found;
    }
  }

  static final Parts PARTS = new Parts();
}
