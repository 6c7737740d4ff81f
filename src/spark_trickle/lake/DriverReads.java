package trickle.lake;

import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.PrimitiveIterator;
import java.util.Set;
import java.util.function.Function;
import java.util.function.LongConsumer;
import java.util.stream.IntStream;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.InclusiveMetricsEvaluator;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.parquet.ColumnIterator;
import org.apache.iceberg.parquet.ParquetSchemaUtil;
import org.apache.iceberg.parquet.ParquetValueReader;
import org.apache.iceberg.shaded.org.apache.parquet.ParquetReadOptions;
import org.apache.iceberg.shaded.org.apache.parquet.column.ColumnDescriptor;
import org.apache.iceberg.shaded.org.apache.parquet.conf.PlainParquetConfiguration;
import org.apache.iceberg.shaded.org.apache.parquet.filter2.compat.FilterCompat;
import org.apache.iceberg.shaded.org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.iceberg.shaded.org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.iceberg.shaded.org.apache.parquet.filter2.predicate.Operators;
import org.apache.iceberg.shaded.org.apache.parquet.filter2.statisticslevel.StatisticsFilter;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.iceberg.shaded.org.apache.parquet.hadoop.metadata.ColumnPath;
import org.apache.iceberg.shaded.org.apache.parquet.internal.column.columnindex.OffsetIndex;
import org.apache.iceberg.shaded.org.apache.parquet.internal.filter2.columnindex.ColumnIndexFilter;
import org.apache.iceberg.shaded.org.apache.parquet.internal.filter2.columnindex.ColumnIndexStore;
import org.apache.iceberg.shaded.org.apache.parquet.internal.filter2.columnindex.RowRanges;
import org.apache.iceberg.shaded.org.apache.parquet.io.InputFile;
import org.apache.iceberg.shaded.org.apache.parquet.io.api.Binary;
import org.apache.iceberg.shaded.org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.iceberg.shaded.org.apache.parquet.schema.MessageType;
import org.apache.iceberg.shaded.org.apache.parquet.schema.PrimitiveType;
import org.apache.iceberg.shaded.org.apache.parquet.schema.Type;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.spark.data.SparkParquetReaders;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.ContentFileUtil;
import org.apache.iceberg.util.DataFileSet;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
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
 * is null. Compiled at its first use by Janino (see Runtime.java).
 */
public class DriverReads {

  private static final int LISTS = 200;
  /** Measured: 120 ns for a cell that becomes a value of Spark, 10 to 15 for one that is passed over. */
  private static final int PASSED = 8;
  private static final org.apache.iceberg.types.Type.TypeID UUID_TYPE = org.apache.iceberg.types.Type.TypeID.UUID;

  /** What is left for Spark to read. */
  public static class Unsuited extends RuntimeException {
    public Unsuited(String why) {
      super(why);
    }
  }

  /** A file that could not be read: Spark will tell what is wrong with it. */
  public static class ReadFailed extends RuntimeException {
    public ReadFailed(Exception cause) {
      super(cause.toString(), cause);
    }
  }

  // -- manifests ------------------------------------------------------------------------------------------------------

  /** The data files of manifests, without their statistics. */
  public DataFileSet dataFiles(List manifests, Table table) throws Exception {
    DataFileSet found = DataFileSet.create();
    for (int i = 0; i < manifests.size(); i++) {
      for (Iterator files = filesOf((ManifestFile) manifests.get(i), table).iterator(); files.hasNext(); ) {
        found.add((DataFile) ((DataFile) files.next()).copyWithoutStats());
      }
    }
    return found;
  }

  /** The delete files of manifests. */
  public List deleteFiles(List manifests, Table table) throws Exception {
    List found = new ArrayList();
    for (int i = 0; i < manifests.size(); i++) found.addAll(filesOf((ManifestFile) manifests.get(i), table));
    return found;
  }

  /** The data files of manifests that have these paths, without their statistics. */
  public List named(List manifests, Table table, Set paths) throws Exception {
    List found = new ArrayList();
    for (int i = 0; i < manifests.size() && found.size() < paths.size(); i++) {
      for (Iterator files = filesOf((ManifestFile) manifests.get(i), table).iterator(); files.hasNext(); ) {
        DataFile file = (DataFile) files.next();
        if (paths.contains(file.location())) found.add(file.copyWithoutStats());
      }
    }
    return found;
  }

  /** What is deleted in these data files: an index by path. Null if there are deletes that name no data file. */
  public Map deleted(Table table, List paths) throws Exception {
    Map deletes = new HashMap();
    for (int i = 0; i < paths.size(); i++) deletes.put(paths.get(i), new ArrayList());
    for (Iterator each = table.currentSnapshot().deleteManifests(table.io()).iterator(); each.hasNext(); ) {
      for (Iterator files = filesOf((ManifestFile) each.next(), table).iterator(); files.hasNext(); ) {
        DeleteFile file = (DeleteFile) files.next();
        String of = ContentFileUtil.referencedDataFileLocation(file);
        if (of == null) return null;
        if (deletes.containsKey(of)) ((List) deletes.get(of)).add(file);
      }
    }
    Map found = new HashMap();
    for (Iterator each = deletes.entrySet().iterator(); each.hasNext(); ) {
      Map.Entry entry = (Map.Entry) each.next();
      List own = (List) entry.getValue();
      onlyVectors(own);
      if (!own.isEmpty()) found.put(entry.getKey(), loaded(table.io(), (String) entry.getKey(), own));
    }
    return found;
  }

  /**
   * Whether no row of these data files can be one of another file: each took its row id from its own file, which says
   * that its column of row ids is empty. False where statistics do not tell.
   */
  public boolean fresh(List manifests, Table table, Set paths) throws Exception {
    Integer id = Integer.valueOf(MetadataColumns.ROW_ID.fieldId());
    Set told = new HashSet();
    for (int i = 0; i < manifests.size(); i++) {
      for (Iterator files = filesOf((ManifestFile) manifests.get(i), table).iterator(); files.hasNext(); ) {
        DataFile file = (DataFile) files.next();
        if (!paths.contains(file.location())) continue;
        Map nulls = file.nullValueCounts();
        Long empty = nulls == null ? null : (Long) nulls.get(id);
        if (empty == null || empty.longValue() != file.recordCount()) return false;
        told.add(file.location());
      }
    }
    return told.size() == paths.size();
  }

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
        PositionDeleteIndex deleted = deletes(table.io(), file, (List) now.get(i));
        if (sign != 0) {
          read(table.io(), file, live(file, deleted, budget), asked, Long.valueOf(sign), false, rows, budget);
        } else {
          PositionDeleteIndex before = deletes(table.io(), file, (List) was.get(i));
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
  private static long[] live(DataFile file, PositionDeleteIndex deleted, Budget budget) {
    List found = new ArrayList();
    for (long p = 0; p < file.recordCount(); p++) {
      if (deleted.isDeleted(p)) continue;
      budget.rows(1);
      found.add(Long.valueOf(p));
    }
    return sorted(found);
  }

  private static long[] minus(PositionDeleteIndex index, final PositionDeleteIndex other, final Budget budget) {
    final List found = new ArrayList();
    index.forEach(new LongConsumer() {
      public void accept(long position) {
        if (!other.isDeleted(position)) found.add(Long.valueOf(position));
      }
    });
    budget.rows(found.size());
    return sorted(found);
  }

  private static long[] sorted(List positions) {
    long[] found = new long[positions.size()];
    for (int i = 0; i < found.length; i++) found[i] = ((Long) positions.get(i)).longValue();
    Arrays.sort(found);
    return found;
  }

  private static PositionDeleteIndex deletes(final FileIO io, DataFile file, List deletes) {
    if (deletes.isEmpty()) return PositionDeleteIndex.empty();
    for (int i = 0; i < deletes.size(); i++) {
      if (((DeleteFile) deletes.get(i)).content() != FileContent.POSITION_DELETES) {
        throw new Unsuited("equality deletes");
      }
    }
    return loaded(io, file.location(), deletes);
  }

  private static PositionDeleteIndex loaded(final FileIO io, String path, List deletes) {
    return new BaseDeleteLoader(new Function() {
      public Object apply(Object of) {
        return io.newInputFile(((DeleteFile) of).location());
      }
    }).loadPositionDeletes(deletes, path);
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
  private static void refuseLarge(Table table, Schema schema, long snapshot, long bytes) throws Exception {
    long left = bytes;
    for (Iterator each = planned(table, schema, snapshot, Expressions.alwaysTrue()).iterator(); each.hasNext(); ) {
      left -= ((Planned) each.next()).file.fileSizeInBytes();
    }
    if (left < 0) throw new Unsuited("many bytes");
  }

  private static List found(
      Table table, Schema schema, long snapshot, Columns asked, Keys keys, boolean places, Budget budget) {
    try {
      List rows = new ArrayList();
      for (Iterator each = planned(table, schema, snapshot, keys.filter()).iterator(); each.hasNext(); ) {
        Planned task = (Planned) each.next();
        PositionDeleteIndex deleted = deletes(table.io(), task.file, task.deletes);
        find(table.io(), task.file, deleted, keys, asked, places, rows, budget);
      }
      return rows;
    } catch (Unsuited left) {
      throw left;
    } catch (Exception failed) {
      throw new ReadFailed(failed);
    }
  }

  /** Key columns of a table that can be compared here, and the values that each may have; null stands for NULL. */
  private static class Keys {
    final Columns columns;
    final Set[] values;

    Keys(Table table, Schema schema, List names, LocalRelation by) {
      List comparable = new ArrayList();
      List ordinals = new ArrayList();
      for (int k = 0; k < names.size(); k++) {
        DataType type = new Columns(table, schema, names.subList(k, k + 1)).types[0];
        // Values of two types are compared by Spark alone, and so are those with several forms.
        if (!by.schema().apply(k).dataType().equals(type) || !canCompare(type)) continue;
        comparable.add(names.get(k));
        ordinals.add(Integer.valueOf(k));
      }
      if (by != null && comparable.isEmpty()) throw new Unsuited("no key that can be compared");
      columns = new Columns(table, schema, comparable);
      values = new Set[ordinals.size()];
      for (int k = 0; k < values.length; k++) {
        int at = ((Integer) ordinals.get(k)).intValue();
        values[k] = new HashSet();
        for (scala.collection.Iterator rows = by.data().iterator(); rows.hasNext(); ) {
          InternalRow row = (InternalRow) rows.next();
          values[k].add(row.isNullAt(at) ? null : comparable(InternalRow.copyValue(row.get(at, columns.types[k]))));
        }
      }
    }

    Expression filter() {
      Expression found = Expressions.alwaysTrue();
      for (int k = 0; k < values.length; k++) {
        String name = columns.fields[k].name();
        if (name.indexOf('.') >= 0) continue;  // for Iceberg a field of a struct
        if (columns.fields[k].type().typeId() == UUID_TYPE) continue;  // Iceberg orders them unlike their bounds
        found = Expressions.and(found, within(name, values[k], columns.types[k]));
      }
      return found;
    }
  }

  /** Types whose values are equal exactly if their internal forms are. */
  private static boolean canCompare(DataType type) {
    return type.equals(DataTypes.IntegerType) || type.equals(DataTypes.LongType) || type.equals(DataTypes.DateType)
        || type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType)
        || type.equals(DataTypes.StringType) || type instanceof DecimalType;
  }

  private static Object comparable(Object value) {
    return value instanceof Decimal ? ((Decimal) value).toJavaBigDecimal() : value;
  }

  /** What planning may use: the values if they are few, else their range. */
  private static Expression within(String name, Set values, DataType type) {
    List known = new ArrayList();
    Expression found = null;
    for (Iterator each = values.iterator(); each.hasNext(); ) {
      Object value = each.next();
      if (value == null) {
        found = Expressions.isNull(name);
      } else {
        known.add(value instanceof UTF8String ? value.toString() : value);
      }
    }
    // A string that is not valid UTF-8 has no text.
    boolean told = !type.equals(DataTypes.StringType) || allValid(values);
    if (!told) return Expressions.alwaysTrue();
    if (!known.isEmpty()) {
      Collections.sort(known);
      Expression range = Expressions.and(
          Expressions.greaterThanOrEqual(name, known.get(0)),
          Expressions.lessThanOrEqual(name, known.get(known.size() - 1)));
      Expression listed = Expressions.and(range, Expressions.in(name, known));
      if (type.equals(DataTypes.StringType)) listed = Expressions.in(name, known); // Java orders text otherwise
      found = found == null ? listed : Expressions.or(found, listed);
    }
    return found == null ? Expressions.alwaysFalse() : found;
  }

  private static boolean allValid(Set values) {
    for (Iterator each = values.iterator(); each.hasNext(); ) {
      Object value = each.next();
      if (value instanceof UTF8String && !((UTF8String) value).isValid()) return false;
    }
    return true;
  }

  // -- planning -------------------------------------------------------------------------------------------------------

  /** A data file with the position deletes of it. */
  private static class Planned {
    final DataFile file;
    final List deletes = new ArrayList();

    Planned(DataFile file) {
      this.file = file;
    }
  }

  /** Files of manifests, which never change: an LRU cache by the path of the manifest, of so many statistics in all. */
  private static final Map MANIFESTS = new LinkedHashMap(16, 0.75f, true);

  private static final long CACHED_STATISTICS = 400000;
  private static long cached = 0;

  private static List cached(String key) {
    synchronized (MANIFESTS) {
      return (List) MANIFESTS.get(key);
    }
  }

  private static void keep(String key, List files) {
    synchronized (MANIFESTS) {
      if (MANIFESTS.put(key, files) == null) cached += weight(files);
      Iterator eldest = MANIFESTS.values().iterator();
      while (cached > CACHED_STATISTICS && MANIFESTS.size() > 1) {
        cached -= weight((List) eldest.next());
        eldest.remove();
      }
    }
  }

  private static long weight(List files) {
    long found = 1;
    for (int i = 0; i < files.size(); i++) {
      Map counts = ((ContentFile) files.get(i)).valueCounts();
      found += 1 + (counts == null ? 0 : counts.size());
    }
    return found;
  }

  /** The files of a snapshot that may hold rows the filter is true for. */
  private static List planned(Table table, Schema schema, long snapshot, Expression filter) throws Exception {
    InclusiveMetricsEvaluator may = new InclusiveMetricsEvaluator(schema, filter);
    Snapshot at = table.snapshot(snapshot);
    Map found = new LinkedHashMap();
    for (Iterator manifests = at.dataManifests(table.io()).iterator(); manifests.hasNext(); ) {
      for (Iterator files = filesOf((ManifestFile) manifests.next(), table).iterator(); files.hasNext(); ) {
        DataFile file = (DataFile) files.next();
        if (!isDoubtful(file, schema) && !may.eval(file)) continue;
        if (found.put(file.location(), new Planned(file)) != null) throw new Unsuited("a file that is there twice");
      }
    }
    for (Iterator manifests = at.deleteManifests(table.io()).iterator(); manifests.hasNext(); ) {
      for (Iterator files = filesOf((ManifestFile) manifests.next(), table).iterator(); files.hasNext(); ) {
        DeleteFile file = (DeleteFile) files.next();
        String of = ContentFileUtil.referencedDataFileLocation(file);
        if (of == null) throw new Unsuited("deletes that name no data file");
        Planned target = (Planned) found.get(of);
        if (target == null || file.dataSequenceNumber().longValue() < target.file.dataSequenceNumber().longValue()) {
          continue;
        }
        target.deletes.add(file);
      }
    }
    for (Iterator all = found.values().iterator(); all.hasNext(); ) onlyVectors(((Planned) all.next()).deletes);
    return new ArrayList(found.values());
  }

  /**
   * Whether a bound of a text is not one: the writer of statistics decodes texts, and bytes that are not valid UTF-8
   * become U+FFFD.
   */
  private static boolean isDoubtful(DataFile file, Schema schema) {
    Map[] bounds = new Map[] {file.lowerBounds(), file.upperBounds()};
    for (int side = 0; side < 2; side++) {
      if (bounds[side] == null) continue;
      for (Iterator each = bounds[side].entrySet().iterator(); each.hasNext(); ) {
        Map.Entry bound = (Map.Entry) each.next();
        org.apache.iceberg.types.Type type = schema.findType(((Integer) bound.getKey()).intValue());
        if (type == null || type.typeId() != org.apache.iceberg.types.Type.TypeID.STRING) continue;
        ByteBuffer bytes = (ByteBuffer) ((ByteBuffer) bound.getValue()).duplicate();
        if (StandardCharsets.UTF_8.decode(bytes).toString().indexOf('\uFFFD') >= 0) return true;
      }
    }
    return false;
  }

  /** A deletion vector holds all deleted positions: it replaces older position deletes of its file. */
  private static void onlyVectors(List deletes) {
    List vectors = new ArrayList();
    for (int i = 0; i < deletes.size(); i++) {
      if (((DeleteFile) deletes.get(i)).format() == FileFormat.PUFFIN) vectors.add(deletes.get(i));
    }
    if (!vectors.isEmpty()) deletes.retainAll(vectors);
  }

  /** The files of a manifest with their statistics. */
  private static List filesOf(ManifestFile manifest, Table table) throws Exception {
    // Files get sequence numbers and row ids from the entry of their manifest in the snapshot's list.
    // Their partition values have the types that the table has now.
    String key = manifest.path() + " " + manifest.sequenceNumber() + " " + manifest.firstRowId() + " "
        + ((PartitionSpec) table.specs().get(Integer.valueOf(manifest.partitionSpecId()))).partitionType();
    List known = cached(key);
    if (known != null) return known;
    List found = new ArrayList();
    ManifestReader reader = manifest.content() == ManifestContent.DATA
        ? ManifestFiles.read(manifest, table.io(), table.specs())
        : ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs());
    try {
      for (Iterator files = reader.iterator(); files.hasNext(); ) found.add(((ContentFile) files.next()).copy());
    } finally {
      reader.close();
    }
    keep(key, found);
    return found;
  }

  // -- files ----------------------------------------------------------------------------------------------------------

  /** How much may be read here. */
  private static class Budget {
    long rows;
    long cells;
    int files;

    Budget(long rows, long cells, int files) {
      this.rows = rows;
      this.cells = cells;
      this.files = files;
    }

    void file() {
      if (--files < 0) throw new Unsuited("many files");
    }

    void rows(long more) {
      rows -= more;
      if (rows < 0) throw new Unsuited("many rows");
    }

    void cells(long more) {
      cells -= more;
      if (cells < 0) throw new Unsuited("many pages");
    }

    /** Cells that are passed over, or compared as they are in the file: many of them take as long as one that is kept. */
    void passed(long more) {
      cells(more / PASSED);
    }

    /** Before rows are listed whose keys will be compared. */
    void refuse(long compared) {
      if (compared / PASSED > cells) throw new Unsuited("many pages");
    }
  }

  /** Top-level columns of a table, in the order they are asked for. */
  private static class Columns {
    final Types.NestedField[] fields;
    final DataType[] types;
    final StructType type;

    Columns(Table table, Schema schema, List names) {
      fields = new Types.NestedField[names.size()];
      types = new DataType[names.size()];
      StructField[] shown = new StructField[names.size()];
      for (int i = 0; i < fields.length; i++) {
        fields[i] = named(schema, (String) names.get(i));
        if (fields[i] == null) throw new Unsuited("no such column");
        shown[i] = SparkSchemaUtil.convert(new Schema(new Types.NestedField[] {fields[i]})).apply(0);
        types[i] = shown[i].dataType();
        refusePartitionValue(table, fields[i].fieldId());
      }
      type = new StructType(shown);
    }

    /** A name with a dot is a column, too; letter case is Spark's matter. */
    private static Types.NestedField named(Schema schema, String name) {
      Types.NestedField found = null;
      for (Iterator all = schema.columns().iterator(); all.hasNext(); ) {
        Types.NestedField field = (Types.NestedField) all.next();
        if (field.name().equals(name)) return field;
        if (!field.name().equalsIgnoreCase(name)) continue;
        if (found != null) throw new Unsuited("two columns of one name");
        found = field;
      }
      return found;
    }

    /** Iceberg reads such a column from the metadata of its file. */
    private static void refusePartitionValue(Table table, int id) {
      for (Iterator specs = table.specs().values().iterator(); specs.hasNext(); ) {
        for (Iterator parts = ((PartitionSpec) specs.next()).fields().iterator(); parts.hasNext(); ) {
          PartitionField part = (PartitionField) parts.next();
          if (part.sourceId() == id && part.transform().isIdentity()) throw new Unsuited("a partition value");
        }
      }
    }
  }

  /** The reader of a file, whose indexes will be those of these columns. */
  private static ParquetFileReader open(FileIO io, DataFile file, Columns asked, Columns keys, Budget budget)
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

  // -- small files ----------------------------------------------------------------------------------------------------

  // Refreshes leave small files behind, and an aggregate may be one altogether. Reading such a file again costs more
  // than keeping its values. Files never change.
  private static final int SMALL_FILE = 20000;
  private static final int CACHED_CELLS = 1000000;
  private static final long SMALL_BYTES = 4000000;
  /** By file, then by column: an LRU cache of the values of whole columns, of so many cells in all. */
  private static final Map SMALL_FILES = new LinkedHashMap(16, 0.75f, true);
  private static long cachedCells = 0;

  /** The whole columns of a small file; null if it is not small. */
  private static Object[][] small(FileIO io, DataFile file, Columns asked, Budget budget) throws Exception {
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
    ParquetFileReader reader = open(io, file, asked, null, budget);
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
          Object[] part = values(reader, b, asked.fields[c], asked.types[c], every, budget);
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
  private static String keyOf(Columns asked, int c) {
    return asked.fields[c].fieldId() + " " + asked.fields[c].type() + " " + asked.types[c];
  }

  private static String keyOf(DataFile file) {
    return file.location() + " " + file.fileSizeInBytes() + " " + file.recordCount();
  }

  private static void keepColumn(DataFile file, String column, Object[] values) {
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

  // -- rows -----------------------------------------------------------------------------------------------------------

  /** The rows at some positions of a file, each with a weight, or with its place. */
  private static void read(
      FileIO io, DataFile file, long[] positions, Columns asked, Long weight, boolean places, List into, Budget budget)
      throws Exception {
    if (positions.length == 0) return;
    Object[][] whole = small(io, file, asked, budget);
    if (whole != null) {
      if (positions[positions.length - 1] >= file.recordCount()) throw new Unsuited("positions outside of a file");
      add(whole, positions, 0, file, positions, weight, places, into);
      return;
    }
    Object[][] found = new Object[asked.fields.length][];
    boolean all = true;
    for (int c = 0; c < found.length; c++) {
      found[c] = PARTS.get(keyOf(file) + " " + keyOf(asked, c), positions);
      all = all && found[c] != null;
    }
    if (!all) fetch(io, file, positions, asked, found, budget);
    add(found, null, 0, file, positions, weight, places, into);
  }

  /** The columns that are missing. */
  private static void fetch(
      FileIO io, DataFile file, long[] positions, Columns asked, Object[][] found, Budget budget) throws Exception {
    ParquetFileReader reader = open(io, file, asked, null, budget);
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
            Object[] part = values(reader, b, asked.fields[c], asked.types[c], within, budget);
            System.arraycopy(part, 0, column, from, part.length);
          }
          from = to;
          start += count;
        }
        if (from < positions.length) throw new Unsuited("positions outside of a file");
        found[c] = column;
        PARTS.put(keyOf(file) + " " + keyOf(asked, c), positions, column);
      }
    } finally {
      reader.close();
    }
  }

  /**
   * The values of columns at some positions: a change of a source is read by every stream table over it. An LRU cache of
   * the last positions of each column, of so many cells in all; a long text is more than one.
   */
  private static class Parts {
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

  private static final Parts PARTS = new Parts();

  private static void rows(
      ParquetFileReader reader, int block, long start, DataFile file, long[] within, Columns asked, Long weight,
      boolean places, List into, Budget budget) throws Exception {
    Object[][] found = new Object[asked.fields.length][];
    for (int c = 0; c < found.length; c++) {
      found[c] = values(reader, block, asked.fields[c], asked.types[c], within, budget);
    }
    add(found, null, start, file, within, weight, places, into);
  }

  /** Rows of columns, at the indexes `at`; null: all of them. */
  private static void add(
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

  /** The values of a column at some rows of a row group, ascending. */
  private static Object[] values(
      ParquetFileReader reader, int block, Types.NestedField field, DataType type, long[] within, Budget budget)
      throws Exception {
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
    budget.cells(within.length);
    decoder.setPageSource(reader.readFilteredRowGroup(block, chosen.ranges()));
    Cells cells = new Cells(decoder, part);
    int at = 0;
    for (int i = 0; i < chosen.n; i++) at = take(decoder, cells, chosen.first(i), chosen.end(i), within, at, type, found);
    return found;
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
  private static int take(
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

  private static boolean has(MessageType file, int id) {
    for (Iterator fields = file.getFields().iterator(); fields.hasNext(); ) {
      Type field = (Type) fields.next();
      if (field.getId() != null && field.getId().intValue() == id) return true;
    }
    return false;
  }

  private static OffsetIndex index(ParquetFileReader reader, int block, ColumnDescriptor column) {
    try {
      return reader.getColumnIndexStore(block).getOffsetIndex(ColumnPath.get(column.getPath()));
    } catch (ColumnIndexStore.MissingOffsetIndexException none) {
      return null;
    }
  }

  /** The rows of a file that have the values, found by statistics of row groups and pages, then by the keys. */
  private static void find(
      FileIO io, DataFile file, PositionDeleteIndex deleted, Keys keys, Columns asked, boolean places, List into,
      Budget budget) throws Exception {
    Columns compared = keys.columns;
    Set[] values = keys.values;
    Object[][] known = small(io, file, compared, budget);
    if (known != null) {
      List matching = new ArrayList();
      for (int r = 0; r < file.recordCount(); r++) {
        boolean has = !deleted.isDeleted(r);
        for (int k = 0; k < values.length && has; k++) {
          has = values[k].contains(known[k][r] == null ? null : comparable(known[k][r]));
        }
        if (has) matching.add(Long.valueOf(r));
      }
      budget.rows(matching.size());
      read(io, file, sorted(matching), asked, null, places, into, budget);
      return;
    }
    ParquetFileReader reader = open(io, file, asked, compared, budget);
    try {
      MessageType schema = reader.getFileMetaData().getSchema();
      FilterPredicate filter = null;
      Set paths = new HashSet();
      for (int k = 0; k < values.length; k++) {
        FilterPredicate one = predicate(schema, compared.fields[k].fieldId(), values[k]);
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

  private static long[] listed(RowRanges ranges, Budget budget) {
    budget.refuse(ranges.rowCount());
    long[] found = new long[(int) ranges.rowCount()];
    int n = 0;
    for (PrimitiveIterator.OfLong rows = ranges.iterator(); rows.hasNext(); ) found[n++] = rows.nextLong();
    return found;
  }

  private static long[] live(long[] rows, long start, PositionDeleteIndex deleted) {
    if (deleted.isEmpty()) return rows;
    long[] found = new long[rows.length];
    int n = 0;
    for (int i = 0; i < rows.length; i++) {
      if (!deleted.isDeleted(start + rows[i])) found[n++] = rows[i];
    }
    return Arrays.copyOf(found, n);
  }

  private static long[] having(
      ParquetFileReader reader, int block, Types.NestedField field, DataType type, long[] within, Set values,
      Budget budget) throws Exception {
    long[] told = havingNumbers(reader, block, field, type, within, values, budget);
    if (told != null) return told;
    Object[] found = values(reader, block, field, type, within, budget);
    long[] kept = new long[within.length];
    int n = 0;
    for (int r = 0; r < within.length; r++) {
      if (values.contains(found[r] == null ? null : comparable(found[r]))) kept[n++] = within[r];
    }
    return Arrays.copyOf(kept, n);
  }

  /** The same for whole numbers that are in the file as Spark has them: no value is made. Null: they are not. */
  private static long[] havingNumbers(
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
  private static boolean isNumber(MessageType part, DataType type) {
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

  /** A set of whole numbers that is asked millions of times: open addressing, at most half full. */
  private static class Numbers {
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

  /** What statistics may be asked; null: nothing. */
  private static FilterPredicate predicate(MessageType schema, int id, Set values) {
    Type type = null;
    for (Iterator fields = schema.getFields().iterator(); fields.hasNext(); ) {
      Type field = (Type) fields.next();
      if (field.getId() != null && field.getId().intValue() == id) type = field;
    }
    // A name with a dot is a path to Parquet.
    if (type == null || !type.isPrimitive() || type.getName().indexOf('.') >= 0) return null;
    LogicalTypeAnnotation meant = type.getLogicalTypeAnnotation();
    if (meant instanceof LogicalTypeAnnotation.TimestampLogicalTypeAnnotation
        && ((LogicalTypeAnnotation.TimestampLogicalTypeAnnotation) meant).getUnit()
            != LogicalTypeAnnotation.TimeUnit.MICROS) {
      return null;  // statistics in another unit than Spark's
    }
    PrimitiveType.PrimitiveTypeName physical = type.asPrimitiveType().getPrimitiveTypeName();
    String name = type.getName();
    Set listed = new HashSet();
    boolean nulls = false;
    for (Iterator each = values.iterator(); each.hasNext(); ) {
      Object value = each.next();
      if (value == null) {
        nulls = true;
        continue;
      }
      if (value instanceof BigDecimal) {
        BigDecimal number = (BigDecimal) value;
        if (number.unscaledValue().bitLength() > 63) return null;
        value = Long.valueOf(number.unscaledValue().longValue());
      }
      if (physical == PrimitiveType.PrimitiveTypeName.INT32 && value instanceof Number) {
        long number = ((Number) value).longValue();
        if (number == (int) number) listed.add(Integer.valueOf((int) number));
      } else if (physical == PrimitiveType.PrimitiveTypeName.INT64 && value instanceof Number) {
        listed.add(Long.valueOf(((Number) value).longValue()));
      } else if (physical == PrimitiveType.PrimitiveTypeName.BINARY && value instanceof UTF8String) {
        listed.add(Binary.fromConstantByteArray(((UTF8String) value).getBytes()));
      } else {
        return null;
      }
    }
    List ordered = new ArrayList(listed);
    if (physical != PrimitiveType.PrimitiveTypeName.BINARY) Collections.sort(ordered);
    FilterPredicate found = nulls || ordered.isEmpty() ? among(physical, name, null) : null;
    // Parquet asks an index about the range from the least to the greatest of a list: several short lists tell more.
    int length = 1 + ordered.size() / LISTS;
    for (int from = 0; from < ordered.size(); from += length) {
      Set part = new HashSet(ordered.subList(from, Math.min(ordered.size(), from + length)));
      found = found == null ? among(physical, name, part) : FilterApi.or(found, among(physical, name, part));
    }
    return found;
  }

  /** Whether a column has one of these values; null: whether it is NULL. */
  private static FilterPredicate among(PrimitiveType.PrimitiveTypeName physical, String name, Set values) {
    if (physical == PrimitiveType.PrimitiveTypeName.INT32) {
      Operators.IntColumn column = FilterApi.intColumn(name);
      return values == null ? FilterApi.eq(column, null) : FilterApi.in(column, values);
    }
    if (physical == PrimitiveType.PrimitiveTypeName.INT64) {
      Operators.LongColumn column = FilterApi.longColumn(name);
      return values == null ? FilterApi.eq(column, null) : FilterApi.in(column, values);
    }
    Operators.BinaryColumn column = FilterApi.binaryColumn(name);
    return values == null ? FilterApi.eq(column, null) : FilterApi.in(column, values);
  }

  private static LocalRelation local(List rows, StructType type) {
    scala.collection.immutable.Seq data =
        scala.jdk.javaapi.CollectionConverters.asScala(Arrays.asList(rows.toArray())).toSeq();
    return new LocalRelation(DataTypeUtils.toAttributes(type), data, false, scala.Option.empty());
  }
}
