package trickle.lake;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.PrimitiveIterator;
import java.util.Set;
import java.util.function.LongConsumer;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.shaded.org.apache.parquet.column.ColumnDescriptor;
import org.apache.iceberg.shaded.org.apache.parquet.filter2.compat.FilterCompat;
import org.apache.iceberg.shaded.org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.iceberg.shaded.org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.iceberg.shaded.org.apache.parquet.filter2.statisticslevel.StatisticsFilter;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.ColumnPath;
import org.apache.iceberg.shaded.org.apache.parquet.internal.filter2.columnindex.ColumnIndexFilter;
import org.apache.iceberg.shaded.org.apache.parquet.internal.filter2.columnindex.RowRanges;
import org.apache.iceberg.shaded.org.apache.parquet.schema.MessageType;
import org.apache.iceberg.types.Types;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Few rows of an Iceberg table, read on the driver: those at some positions, or those that have some keys. Parquet
 * files say which rows each page holds, and mostly between which values they are; so a row costs a page of each column,
 * however large its file. Rows are decoded by Iceberg's reader for Spark's internal rows.
 *
 * What it cannot read exactly (`Unsuited`), and what would take longer here than a Spark job, is not read: the result
 * is null. Compiled at its first use by Janino (see runtime.py).
 */
public class DriverReads {

  // -- changes --------------------------------------------------------------------------------------------------------

  /**
   * The rows by which files differ: a local relation, or null.
   *
   * Of a file that is on one side only, its rows with `weights`; of one that is on both (weight 0), the rows deleted on
   * the new side only with -1 and those deleted on the old side only with 1. `was` and `now` are the deletes of each
   * file on the two sides; of a file on one side only, `now` are its deletes.
   */
  public LocalRelation changes(
      Table table, List columns, String weight, List files, List was, List now, List weights,
      int limit, long cells, int opened) throws Exception {
    try {
      Columns asked = new Columns(table, table.schema(), columns);
      Budget budget = new Budget(limit, cells, opened);
      List rows = new ArrayList();
      for (int i = 0; i < files.size(); i++) {
        DataFile file = (DataFile) files.get(i);
        int sign = ((Integer) weights.get(i)).intValue();
        PositionDeleteIndex deleted = Manifests.deletes(table.io(), file, (List) now.get(i));
        if (sign != 0) {
          read(table.io(), file, live(file, deleted, budget), asked, Long.valueOf(sign), false, rows, budget);
        } else {
          PositionDeleteIndex before = Manifests.deletes(table.io(), file, (List) was.get(i));
          read(table.io(), file, minus(deleted, before, budget), asked, Long.valueOf(-1), false, rows, budget);
          read(table.io(), file, minus(before, deleted, budget), asked, Long.valueOf(1), false, rows, budget);
        }
      }
      StructType type = asked.type.add(new StructField(weight, DataTypes.LongType, false, Metadata.empty()));
      return local(rows, type);
    } catch (Unsuited left) {
      return null;
    } catch (Exception failed) {
      throw new ReadFailed(failed);
    }
  }

  /** All positions of a file that are not deleted. */
  static long[] live(DataFile file, PositionDeleteIndex deleted, Budget budget) {
    List found = new ArrayList();
    for (long p = 0; p < file.recordCount(); p++) {
      if (deleted.isDeleted(p)) continue;
      budget.rows(1);
      found.add(Long.valueOf(p));
    }
    return sorted(found);
  }

  static long[] minus(PositionDeleteIndex index, final PositionDeleteIndex other, final Budget budget) {
    final List found = new ArrayList();
    index.forEach(new LongConsumer() {
      public void accept(long position) {
        if (!other.isDeleted(position)) found.add(Long.valueOf(position));
      }
    });
    budget.rows(found.size());
    return sorted(found);
  }

  static long[] sorted(List positions) {
    long[] found = new long[positions.size()];
    for (int i = 0; i < found.length; i++) found[i] = ((Long) positions.get(i)).longValue();
    Arrays.sort(found);
    return found;
  }

  // -- lookup ---------------------------------------------------------------------------------------------------------

  /**
   * The rows of a snapshot that have in each of `keys` some value that `by` has there: {frame, number of rows}, or
   * null. There may be rows whose keys are of different rows of `by`. All rows if that is null. With `places` two columns more: file and position.
   */
  public LocalRelation lookup(
      Table table, Schema schema, long snapshot, List columns, List keys, LocalRelation by, List places,
      int limit, long cells, int files, long bytes) throws Exception {
    try {
      Columns asked = new Columns(table, schema, columns);
      Keys wanted = new Keys(table, schema, keys, by);
      Budget budget = new Budget(limit, cells, files);
      if (by == null) refuseLarge(table, schema, snapshot, bytes);
      List rows = found(table, schema, snapshot, asked, wanted, !places.isEmpty(), budget);
      StructType type = asked.type;
      for (int i = 0; i < places.size(); i++) {
        type = type.add((String) places.get(i), i == 0 ? DataTypes.StringType : DataTypes.LongType);
      }
      return local(rows, type);
    } catch (Unsuited left) {
      return null;
    }
  }

  /** All rows are few, but they may be long. */
  static void refuseLarge(Table table, Schema schema, long snapshot, long bytes) throws Exception {
    long left = bytes;
    for (Iterator each = Manifests.planned(table, schema, snapshot, Expressions.alwaysTrue()).iterator(); each.hasNext(); ) {
      left -= ((PlannedFile) each.next()).file.fileSizeInBytes();
    }
    if (left < 0) throw new Unsuited("many bytes");
  }

  static List found(
      Table table, Schema schema, long snapshot, Columns asked, Keys keys, boolean places, Budget budget) {
    try {
      List rows = new ArrayList();
      for (Iterator each = Manifests.planned(table, schema, snapshot, keys.filter()).iterator(); each.hasNext(); ) {
        PlannedFile task = (PlannedFile) each.next();
        PositionDeleteIndex deleted = Manifests.deletes(table.io(), task.file, task.deletes);
        find(table.io(), task.file, deleted, keys, asked, places, rows, budget);
      }
      return rows;
    } catch (Unsuited left) {
      throw left;
    } catch (Exception failed) {
      throw new ReadFailed(failed);
    }
  }

  /** The rows of a file that have the values, found by statistics of row groups and pages, then by the keys. */
  static void find(
      FileIO io, DataFile file, PositionDeleteIndex deleted, Keys keys, Columns asked, boolean places, List into,
      Budget budget) throws Exception {
    Columns compared = keys.columns;
    Set[] values = keys.values;
    Object[][] known = KeptColumns.small(io, file, compared, budget);
    if (known != null) {
      List matching = new ArrayList();
      for (int r = 0; r < file.recordCount(); r++) {
        boolean has = !deleted.isDeleted(r);
        for (int k = 0; k < values.length && has; k++) {
          has = values[k].contains(known[k][r] == null ? null : Keys.comparable(known[k][r]));
        }
        if (has) matching.add(Long.valueOf(r));
      }
      budget.rows(matching.size());
      read(io, file, sorted(matching), asked, null, places, into, budget);
      return;
    }
    ParquetFileReader reader = Pages.open(io, file, asked, compared, budget);
    try {
      MessageType schema = reader.getFileMetaData().getSchema();
      FilterPredicate filter = null;
      Set paths = new HashSet();
      for (int k = 0; k < values.length; k++) {
        FilterPredicate one = Keys.predicate(schema, compared.fields[k].fieldId(), values[k]);
        if (one == null) continue;
        filter = filter == null ? one : FilterApi.and(filter, one);
      }
      for (Iterator all = schema.getColumns().iterator(); all.hasNext(); ) {
        paths.add(ColumnPath.get(((ColumnDescriptor) all.next()).getPath()));
      }
      long start = 0;
      List blocks = reader.getFooter().getBlocks();
      for (int b = 0; b < blocks.size(); b++) {
        BlockMetaData group = (BlockMetaData) blocks.get(b);
        long first = start;
        start += group.getRowCount();
        if (filter != null && StatisticsFilter.canDrop(filter, group.getColumns())) continue;
        RowRanges ranges = filter == null
            ? RowRanges.createSingle(group.getRowCount())
            : ColumnIndexFilter.calculateRowRanges(
                FilterCompat.get(filter), reader.getColumnIndexStore(b), paths, group.getRowCount());
        long[] matching = listed(ranges, budget);
        for (int k = 0; k < values.length && matching.length > 0; k++) {
          matching = having(reader, b, compared.fields[k], compared.types[k], matching, values[k], budget);
        }
        matching = live(matching, first, deleted);
        budget.rows(matching.length);
        if (matching.length > 0) rows(reader, b, first, file, matching, asked, null, places, into, budget);
      }
    } finally {
      reader.close();
    }
  }

  static long[] listed(RowRanges ranges, Budget budget) {
    budget.refuse(ranges.rowCount());
    long[] found = new long[(int) ranges.rowCount()];
    int n = 0;
    for (PrimitiveIterator.OfLong rows = ranges.iterator(); rows.hasNext(); ) found[n++] = rows.nextLong();
    return found;
  }

  static long[] live(long[] rows, long start, PositionDeleteIndex deleted) {
    if (deleted.isEmpty()) return rows;
    long[] found = new long[rows.length];
    int n = 0;
    for (int i = 0; i < rows.length; i++) {
      if (!deleted.isDeleted(start + rows[i])) found[n++] = rows[i];
    }
    return Arrays.copyOf(found, n);
  }

  static long[] having(
      ParquetFileReader reader, int block, Types.NestedField field, DataType type, long[] within, Set values,
      Budget budget) throws Exception {
    long[] told = Pages.havingNumbers(reader, block, field, type, within, values, budget);
    if (told != null) return told;
    Object[] found = Pages.values(reader, block, field, type, within, budget);
    long[] kept = new long[within.length];
    int n = 0;
    for (int r = 0; r < within.length; r++) {
      if (values.contains(found[r] == null ? null : Keys.comparable(found[r]))) kept[n++] = within[r];
    }
    return Arrays.copyOf(kept, n);
  }

  // -- rows -----------------------------------------------------------------------------------------------------------

  /** The rows at some positions of a file, each with a weight, or with its place. */
  static void read(
      FileIO io, DataFile file, long[] positions, Columns asked, Long weight, boolean places, List into, Budget budget)
      throws Exception {
    if (positions.length == 0) return;
    Object[][] whole = KeptColumns.small(io, file, asked, budget);
    if (whole != null) {
      if (positions[positions.length - 1] >= file.recordCount()) throw new Unsuited("positions outside of a file");
      add(whole, positions, 0, file, positions, weight, places, into);
      return;
    }
    Object[][] found = new Object[asked.fields.length][];
    boolean all = true;
    for (int c = 0; c < found.length; c++) {
      found[c] = KeptColumns.PARTS.get(KeptColumns.keyOf(file) + " " + KeptColumns.keyOf(asked, c), positions);
      all = all && found[c] != null;
    }
    if (!all) fetch(io, file, positions, asked, found, budget);
    add(found, null, 0, file, positions, weight, places, into);
  }

  /** The columns that are missing. */
  static void fetch(
      FileIO io, DataFile file, long[] positions, Columns asked, Object[][] found, Budget budget) throws Exception {
    ParquetFileReader reader = Pages.open(io, file, asked, null, budget);
    try {
      List blocks = reader.getFooter().getBlocks();
      for (int c = 0; c < found.length; c++) {
        if (found[c] != null) continue;
        Object[] column = new Object[positions.length];
        long start = 0;
        int from = 0;
        for (int b = 0; b < blocks.size() && from < positions.length; b++) {
          long count = ((BlockMetaData) blocks.get(b)).getRowCount();
          int to = from;
          while (to < positions.length && positions[to] < start + count) to++;
          if (to > from) {
            long[] within = new long[to - from];
            for (int i = 0; i < within.length; i++) within[i] = positions[from + i] - start;
            Object[] part = Pages.values(reader, b, asked.fields[c], asked.types[c], within, budget);
            System.arraycopy(part, 0, column, from, part.length);
          }
          from = to;
          start += count;
        }
        if (from < positions.length) throw new Unsuited("positions outside of a file");
        found[c] = column;
        KeptColumns.PARTS.put(KeptColumns.keyOf(file) + " " + KeptColumns.keyOf(asked, c), positions, column);
      }
    } finally {
      reader.close();
    }
  }

  static void rows(
      ParquetFileReader reader, int block, long start, DataFile file, long[] within, Columns asked, Long weight,
      boolean places, List into, Budget budget) throws Exception {
    Object[][] found = new Object[asked.fields.length][];
    for (int c = 0; c < found.length; c++) {
      found[c] = Pages.values(reader, block, asked.fields[c], asked.types[c], within, budget);
    }
    add(found, null, start, file, within, weight, places, into);
  }

  /** Rows of columns, at the indexes `at`; null: all of them. */
  static void add(
      Object[][] found, long[] at, long start, DataFile file, long[] within, Long weight, boolean places, List into) {
    UTF8String path = UTF8String.fromString(file.location());
    for (int r = 0; r < within.length; r++) {
      Object[] row = new Object[found.length + (weight != null ? 1 : 0) + (places ? 2 : 0)];
      for (int c = 0; c < found.length; c++) {
        Object value = found[c][at == null ? r : (int) at[r]];
        // Spark changes the precision of a decimal in place.
        row[c] = value instanceof Decimal ? ((Decimal) value).clone() : value;
      }
      int next = found.length;
      if (weight != null) row[next++] = weight;
      if (places) {
        row[next++] = path;
        row[next] = Long.valueOf(start + within[r]);
      }
      into.add(new GenericInternalRow(row));
    }
  }

  static LocalRelation local(List rows, StructType type) {
    scala.collection.immutable.Seq data =
        scala.jdk.javaapi.CollectionConverters.asScala(Arrays.asList(rows.toArray())).toSeq();
    return new LocalRelation(DataTypeUtils.toAttributes(type), data, false, scala.Option.empty());
  }
}
