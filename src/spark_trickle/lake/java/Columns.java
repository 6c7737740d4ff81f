package trickle.lake;

import java.util.Iterator;
import java.util.List;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.types.Types;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Top-level columns of a table, in the order they are asked for. */
final class Columns {
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
