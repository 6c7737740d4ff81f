package trickle.lake;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.shaded.org.apache.parquet.filter2.predicate.FilterApi;
import org.apache.iceberg.shaded.org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.iceberg.shaded.org.apache.parquet.filter2.predicate.Operators;
import org.apache.iceberg.shaded.org.apache.parquet.io.api.Binary;
import org.apache.iceberg.shaded.org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.iceberg.shaded.org.apache.parquet.schema.MessageType;
import org.apache.iceberg.shaded.org.apache.parquet.schema.PrimitiveType;
import org.apache.iceberg.shaded.org.apache.parquet.schema.Type;
import org.apache.iceberg.types.Types;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

/** Key columns of a table that can be compared here, and the values that each may have; null stands for NULL. */
final class Keys {
  private static final org.apache.iceberg.types.Type.TypeID UUID_TYPE = org.apache.iceberg.types.Type.TypeID.UUID;
  private static final int LISTS = 200;

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

  /** Types whose values are equal exactly if their internal forms are. */
  static boolean canCompare(DataType type) {
    return type.equals(DataTypes.IntegerType) || type.equals(DataTypes.LongType) || type.equals(DataTypes.DateType)
        || type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType)
        || type.equals(DataTypes.StringType) || type instanceof DecimalType;
  }

  static Object comparable(Object value) {
    return value instanceof Decimal ? ((Decimal) value).toJavaBigDecimal() : value;
  }

  /** What planning may use: the values if they are few, else their range. */
  static Expression within(String name, Set values, DataType type) {
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

  static boolean allValid(Set values) {
    for (Iterator each = values.iterator(); each.hasNext(); ) {
      Object value = each.next();
      if (value instanceof UTF8String && !((UTF8String) value).isValid()) return false;
    }
    return true;
  }

  /** What statistics may be asked; null: nothing. */
  static FilterPredicate predicate(MessageType schema, int id, Set values) {
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
  static FilterPredicate among(PrimitiveType.PrimitiveTypeName physical, String name, Set values) {
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
}
