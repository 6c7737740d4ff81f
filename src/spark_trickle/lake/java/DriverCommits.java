package trickle.lake;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Function;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.formats.FormatModelRegistry;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.DeleteWriteResult;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * A small commit to an unpartitioned table in one call, and without a Spark job: few rows are written on the driver by
 * the writer that Spark's own tasks use, positions as deletion vectors. Compiled at its first use by Janino (see
 * runtime.py).
 */
public class DriverCommits {

  /** Whether rows of this schema are written as they are: Spark would cast others to the types of the table. */
  public boolean fits(LocalRelation rows, Table table) {
    StructType given = rows.schema();
    StructType wanted = SparkSchemaUtil.convert(table.schema());
    if (given.length() != wanted.length()) return false;
    for (int i = 0; i < wanted.length(); i++) {
      scala.Option at = given.getFieldIndex(wanted.apply(i).name());
      if (at.isEmpty()) return false;
      DataType type = given.apply(((Integer) at.get()).intValue()).dataType();
      if (!DataType.equalsIgnoreNullability(type, wanted.apply(i).dataType())) return false;
    }
    return true;
  }

  /**
   * Append rows (null: none), written through `through`, and delete rows by position, in one commit.
   *
   * `positions` has a part per data file, separated by the character 1: its path, the character 0, and its positions
   * separated by commas; `earlier` has what is deleted in these files already (Manifests.deleted). Gives lines: the new snapshot, its parent or nothing, the metadata file, then `key=value` of
   * the summary.
   */
  public String change(Table table, Table through, LocalRelation rows, String positions, Map earlier)
      throws Exception {
    Snapshot base = table.currentSnapshot();
    RowDelta commit = table.newRowDelta();
    List written = new ArrayList();
    try {
      if (!positions.isEmpty()) delete(table, positions, earlier, commit, written);
      if (rows != null && !rows.data().isEmpty()) commit.addRows(write(rows, through, written));
      if (base != null) commit.validateFromSnapshot(base.snapshotId());
      commit.commit();
    } catch (Throwable error) {
      throw forgotten(table, written, error);
    }
    return told(table);
  }

  /** Put rows, written through `through`, in the place of all rows, in one commit. Gives what `change` gives. */
  public String replace(Table table, Table through, LocalRelation rows) throws Exception {
    OverwriteFiles commit = table.newOverwrite().overwriteByRowFilter(Expressions.alwaysTrue());
    List written = new ArrayList();
    try {
      if (!rows.data().isEmpty()) commit.addFile(write(rows, through, written));
      commit.commit();
    } catch (Throwable error) {
      throw forgotten(table, written, error);
    }
    return told(table);
  }

  /** The error, after the files of what failed are gone: if nobody knows whether the commit was made, nobody will
   * publish it either, because the table is the attempt's own. */
  private static Exception forgotten(Table table, List written, Throwable error) {
    for (Iterator paths = written.iterator(); paths.hasNext(); ) {
      try {
        table.io().deleteFile((String) paths.next());
      } catch (RuntimeException failed) {
        error.addSuppressed(failed);
      }
    }
    if (error instanceof Error) throw (Error) error;
    return (Exception) error;
  }

  /** What `change` gives, of the current snapshot. */
  public String told(Table table) {
    Snapshot made = table.currentSnapshot();
    StringBuilder found = new StringBuilder();
    found.append(made.snapshotId()).append("\n");
    found.append(made.parentId() == null ? "" : made.parentId().toString()).append("\n");
    found.append(((HasTableOperations) table).operations().current().metadataFileLocation());
    for (Iterator entries = made.summary().entrySet().iterator(); entries.hasNext(); ) {
      Map.Entry entry = (Map.Entry) entries.next();
      found.append("\n").append(entry.getKey()).append("=").append(entry.getValue());
    }
    return found.toString();
  }

  private static DataFile write(LocalRelation rows, Table table, List written) throws Exception {
    StructType type = SparkSchemaUtil.convert(table.schema());
    String named = (String) table.properties().get("write.format.default");
    FileFormat format = FileFormat.fromString(named == null ? "parquet" : named);
    OutputFileFactory files =
        OutputFileFactory.builderFor(table, 0, 0L).format(format).operationId(UUID.randomUUID().toString()).build();
    org.apache.iceberg.encryption.EncryptedOutputFile output = files.newOutputFile();
    written.add(output.encryptingOutputFile().location());
    DataWriter writer = (DataWriter) FormatModelRegistry.dataWriteBuilder(format, InternalRow.class, output)
        .schema(table.schema())
        .engineSchema(type)
        .setAll(table.properties())
        .metricsConfig(MetricsConfig.forTable(table))
        .spec(table.spec())
        .keyMetadata(output.keyMetadata())
        .overwrite()
        .build();
    int[] from = ordinals(rows.schema(), type);
    for (scala.collection.Iterator each = rows.data().iterator(); each.hasNext(); ) {
      writer.write(inOrder((InternalRow) each.next(), from, type));
    }
    writer.close();
    return writer.toDataFile();
  }

  /** Where each column of the table is in the rows; null: in the same place. */
  private static int[] ordinals(StructType given, StructType wanted) {
    int[] from = new int[wanted.length()];
    boolean same = given.length() == wanted.length();
    for (int i = 0; i < from.length; i++) {
      from[i] = given.fieldIndex(wanted.apply(i).name());
      same = same && from[i] == i;
    }
    return same ? null : from;
  }

  private static InternalRow inOrder(InternalRow row, int[] from, StructType type) {
    if (from == null) return row;
    Object[] values = new Object[from.length];
    for (int i = 0; i < from.length; i++) {
      values[i] = row.isNullAt(from[i]) ? null : row.get(from[i], type.apply(i).dataType());
    }
    return new GenericInternalRow(values);
  }

  private static void delete(Table table, String positions, final Map earlier, RowDelta commit, List written)
      throws Exception {
    String[] parts = positions.split("\u0001");
    List paths = new ArrayList();
    for (int i = 0; i < parts.length; i++) paths.add(parts[i].substring(0, parts[i].indexOf('\u0000')));
    OutputFileFactory files = OutputFileFactory.builderFor(table, 1, 1L)
        .format(FileFormat.PUFFIN).operationId(UUID.randomUUID().toString()).build();
    BaseDVFileWriter writer = new BaseDVFileWriter(files, new Function() {
      public Object apply(Object path) {
        return earlier.get(path);
      }
    });
    PartitionData partition = new PartitionData(table.spec().partitionType());
    for (int i = 0; i < parts.length; i++) {
      String path = (String) paths.get(i);
      String[] listed = parts[i].substring(path.length() + 1).split(",");
      for (int n = 0; n < listed.length; n++) {
        writer.delete(path, Long.parseLong(listed[n]), table.spec(), partition);
      }
    }
    writer.close();
    DeleteWriteResult result = writer.result();
    for (Iterator made = result.deleteFiles().iterator(); made.hasNext(); ) {
      DeleteFile vector = (DeleteFile) made.next();
      if (!written.contains(vector.location())) written.add(vector.location());
      commit.addDeletes(vector);
    }
    for (Iterator gone = result.rewrittenDeleteFiles().iterator(); gone.hasNext(); ) {
      commit.removeDeletes((DeleteFile) gone.next());
    }
    commit.validateDataFilesExist(paths).validateDeletedFiles();
  }
}
