package trickle.lake;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.Schema;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.parquet.ColumnIterator;
import org.apache.iceberg.parquet.ParquetSchemaUtil;
import org.apache.iceberg.parquet.ParquetValueReader;
import org.apache.iceberg.shaded.org.apache.parquet.ParquetReadOptions;
import org.apache.iceberg.shaded.org.apache.parquet.column.ColumnDescriptor;
import org.apache.iceberg.shaded.org.apache.parquet.conf.PlainParquetConfiguration;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.ColumnPath;
import org.apache.iceberg.shaded.org.apache.parquet.internal.column.columnindex.OffsetIndex;
import org.apache.iceberg.shaded.org.apache.parquet.internal.filter2.columnindex.ColumnIndexStore;
import org.apache.iceberg.shaded.org.apache.parquet.internal.filter2.columnindex.RowRanges;
import org.apache.iceberg.shaded.org.apache.parquet.io.InputFile;
import org.apache.iceberg.shaded.org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.iceberg.shaded.org.apache.parquet.schema.MessageType;
import org.apache.iceberg.shaded.org.apache.parquet.schema.PrimitiveType;
import org.apache.iceberg.shaded.org.apache.parquet.schema.Type;
import org.apache.iceberg.spark.data.SparkParquetReaders;
import org.apache.iceberg.types.Types;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/** Values of a column of a Parquet file at some rows of a row group: a row costs the page that it is in. */
final class Pages {

  /** The reader of a file, whose indexes will be those of these columns. */
  static ParquetFileReader open(FileIO io, DataFile file, Columns asked, Columns keys, Budget budget)
      throws Exception {
    budget.file();
    if (file.format() != FileFormat.PARQUET || file.keyMetadata() != null) throw new Unsuited("another format");
    Method adapt = Class.forName("org.apache.iceberg.parquet.ParquetIO", true, FileIO.class.getClassLoader())
        .getDeclaredMethod("file", new Class[] {org.apache.iceberg.io.InputFile.class});
    adapt.setAccessible(true);
    InputFile input = (InputFile) adapt.invoke(
        null, new Object[] {io.newInputFile(file.location(), file.fileSizeInBytes())});
    // Options of its own: they hold decompressors, which the reader gives back when it is closed. With a plain
    // configuration, because otherwise Hadoop's files are parsed.
    ParquetReadOptions options = ParquetReadOptions.builder(new PlainParquetConfiguration()).build();
    ParquetFileReader reader = ParquetFileReader.open(input, options);
    boolean opened = false;
    try {
      MessageType schema = reader.getFileMetaData().getSchema();
      if (!ParquetSchemaUtil.hasIds(schema)) throw new Unsuited("a file without field ids");
      Set fields = new LinkedHashSet(Arrays.asList(asked.fields));
      if (keys != null) fields.addAll(Arrays.asList(keys.fields));
      reader.setRequestedSchema(ParquetSchemaUtil.pruneColumns(schema, new Schema(new ArrayList(fields))));
      for (int b = 0; b < reader.getFooter().getBlocks().size(); b++) reader.getColumnIndexStore(b);
      opened = true;
      return reader;
    } finally {
      if (!opened) reader.close();
    }
  }

  /** The values of a column at some rows of a row group, ascending. */
  static Object[] values(
      ParquetFileReader reader, int block, Types.NestedField field, DataType type, long[] within, Budget budget)
      throws Exception {
    budget.cells(within.length);
    Object[] found = new Object[within.length];
    if (within.length == 0) return found;
    MessageType file = reader.getFileMetaData().getSchema();
    Schema wanted = new Schema(new Types.NestedField[] {field});
    if (!has(file, field.fieldId())) {
      if (field.initialDefault() != null || field.isRequired()) throw new Unsuited("a column with a default");
      return found;
    }
    MessageType part = ParquetSchemaUtil.pruneColumns(file, wanted);
    ParquetValueReader decoder = SparkParquetReaders.buildReader(wanted, part);
    BlockMetaData group = (BlockMetaData) reader.getFooter().getBlocks().get(block);
    OffsetIndex pages = part.getColumns().size() == 1 && part.getType(0).isPrimitive()
        ? index(reader, block, (ColumnDescriptor) part.getColumns().get(0))
        : null;
    reader.setRequestedSchema(part);
    long count = group.getRowCount();
    if (pages == null) {  // nested, or written without an index: its pages cannot be told apart
      budget.cells(count * part.getColumns().size());
      decoder.setPageSource(reader.readRowGroup(block));
      take(decoder, null, 0, count, within, 0, type, found);
      return found;
    }
    Chosen chosen = new Chosen(pages, count, within);
    budget.passed(chosen.rows);
    decoder.setPageSource(reader.readFilteredRowGroup(block, chosen.ranges()));
    Cells cells = new Cells(decoder, part);
    int at = 0;
    for (int i = 0; i < chosen.n; i++) at = take(decoder, cells, chosen.first(i), chosen.end(i), within, at, type, found);
    return found;
  }

  /** The same for whole numbers that are in the file as Spark has them: no value is made. Null: they are not. */
  static long[] havingNumbers(
      ParquetFileReader reader, int block, Types.NestedField field, DataType type, long[] within, Set values,
      Budget budget) throws Exception {
    MessageType file = reader.getFileMetaData().getSchema();
    if (!has(file, field.fieldId())) return null;
    Schema wanted = new Schema(new Types.NestedField[] {field});
    MessageType part = ParquetSchemaUtil.pruneColumns(file, wanted);
    if (!isNumber(part, type)) return null;
    OffsetIndex pages = index(reader, block, (ColumnDescriptor) part.getColumns().get(0));
    if (pages == null) return null;
    Chosen chosen = new Chosen(pages, ((BlockMetaData) reader.getFooter().getBlocks().get(block)).getRowCount(), within);
    budget.passed(chosen.rows);
    ParquetValueReader decoder = SparkParquetReaders.buildReader(wanted, part);
    reader.setRequestedSchema(part);
    decoder.setPageSource(reader.readFilteredRowGroup(block, chosen.ranges()));
    Cells cells = new Cells(decoder, part);
    boolean small = cells.physical == PrimitiveType.PrimitiveTypeName.INT32;
    Numbers numbers = new Numbers(values);
    long[] kept = new long[within.length];
    int n = 0;
    int at = 0;
    for (int i = 0; i < chosen.n; i++) {
      long end = chosen.end(i);
      for (long r = chosen.first(i); r < end && at < within.length; r++) {
        boolean has;
        if (cells.isNull()) {
          cells.column.nextNull();
          has = numbers.hasNull;
        } else {
          has = numbers.has(small ? cells.column.nextInteger() : cells.column.nextLong());
        }
        if (r != within[at]) continue;
        if (has) kept[n++] = r;
        at++;
      }
    }
    return Arrays.copyOf(kept, n);
  }

  /** Whether a column is one of whole numbers, dates or times, whose form in the file is that of Spark. */
  static boolean isNumber(MessageType part, DataType type) {
    if (part.getColumns().size() != 1 || !part.getType(0).isPrimitive()) return false;
    PrimitiveType column = part.getType(0).asPrimitiveType();
    LogicalTypeAnnotation meant = column.getLogicalTypeAnnotation();
    boolean is32 = column.getPrimitiveTypeName() == PrimitiveType.PrimitiveTypeName.INT32;
    boolean is64 = column.getPrimitiveTypeName() == PrimitiveType.PrimitiveTypeName.INT64;
    boolean plain = meant == null || meant instanceof LogicalTypeAnnotation.IntLogicalTypeAnnotation
        && ((LogicalTypeAnnotation.IntLogicalTypeAnnotation) meant).isSigned();
    if (type.equals(DataTypes.IntegerType)) return is32 && plain;
    if (type.equals(DataTypes.LongType)) return (is32 || is64) && plain;
    if (type.equals(DataTypes.DateType)) {
      return is32 && meant instanceof LogicalTypeAnnotation.DateLogicalTypeAnnotation;
    }
    return is64 && (type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType))
        && meant instanceof LogicalTypeAnnotation.TimestampLogicalTypeAnnotation
        && ((LogicalTypeAnnotation.TimestampLogicalTypeAnnotation) meant).getUnit()
            == LogicalTypeAnnotation.TimeUnit.MICROS;
  }

  /** The pages of a column that hold some rows of a row group, which ascend. */
  private static class Chosen {
    final OffsetIndex pages;
    final long count;
    final int[] numbers;
    int n = 0;
    long rows = 0;

    Chosen(OffsetIndex pages, long count, long[] within) {
      this.pages = pages;
      this.count = count;
      numbers = new int[pages.getPageCount()];
      int next = 0;
      for (int p = 0; p < pages.getPageCount() && next < within.length; p++) {
        long last = pages.getLastRowIndex(p, count);
        if (within[next] > last) continue;
        numbers[n++] = p;
        rows += last - pages.getFirstRowIndex(p) + 1;
        while (next < within.length && within[next] <= last) next++;
      }
    }

    RowRanges ranges() {
      return RowRanges.create(count, IntStream.of(Arrays.copyOf(numbers, n)).iterator(), pages);
    }

    long first(int i) {
      return pages.getFirstRowIndex(numbers[i]);
    }

    long end(int i) {
      return pages.getLastRowIndex(numbers[i], count) + 1;
    }
  }

  /** The cells of a plain column as they are in the file, one after the other, below the reader that decodes them. */
  private static class Cells {
    final ColumnIterator column;
    final int defined;  // the level at which there is a value
    final PrimitiveType.PrimitiveTypeName physical;

    Cells(ParquetValueReader decoder, MessageType part) {
      column = (ColumnIterator) decoder.columns().get(0);
      defined = ((ColumnDescriptor) part.getColumns().get(0)).getMaxDefinitionLevel();
      physical = part.getType(0).asPrimitiveType().getPrimitiveTypeName();
    }

    boolean isNull() {
      return column.currentDefinitionLevel() < defined;
    }

    void pass() {
      if (column.currentDefinitionLevel() < defined) column.nextNull();
      else if (physical == PrimitiveType.PrimitiveTypeName.INT64) column.nextLong();
      else if (physical == PrimitiveType.PrimitiveTypeName.INT32) column.nextInteger();
      else if (physical == PrimitiveType.PrimitiveTypeName.DOUBLE) column.nextDouble();
      else if (physical == PrimitiveType.PrimitiveTypeName.FLOAT) column.nextFloat();
      else if (physical == PrimitiveType.PrimitiveTypeName.BOOLEAN) column.nextBoolean();
      else column.nextBinary();
    }
  }

  /**
   * Decodes the rows from `first` to `end` and keeps those asked for, from the one at `at` on; returns the next. `cells`:
   * how to pass over the others; null: they are decoded, too.
   */
  static int take(
      ParquetValueReader decoder, Cells cells, long first, long end, long[] within, int at, DataType type,
      Object[] into) {
    // Arrays and maps inside other values are used again for the next row, and a copy of the outer value keeps them.
    boolean isNested = type instanceof ArrayType || type instanceof MapType || type instanceof StructType;
    InternalRow row = null;
    for (long r = first; r < end && at < within.length; r++) {
      if (cells != null && r != within[at]) {
        cells.pass();
        continue;
      }
      row = (InternalRow) decoder.read(isNested ? null : row);
      if (r == within[at]) {
        into[at] = row.isNullAt(0) ? null : InternalRow.copyValue(row.get(0, type));
        at++;
      }
    }
    return at;
  }

  static boolean has(MessageType file, int id) {
    for (Iterator fields = file.getFields().iterator(); fields.hasNext(); ) {
      Type field = (Type) fields.next();
      if (field.getId() != null && field.getId().intValue() == id) return true;
    }
    return false;
  }

  static OffsetIndex index(ParquetFileReader reader, int block, ColumnDescriptor column) {
    try {
      return reader.getColumnIndexStore(block).getOffsetIndex(ColumnPath.get(column.getPath()));
    } catch (ColumnIndexStore.MissingOffsetIndexException none) {
      return null;
    }
  }
}
