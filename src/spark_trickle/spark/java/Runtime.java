package trickle.runtime;

import java.util.Arrays;
import java.util.Iterator;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractFunction1;

/**
 * What the driver does with Spark's internal rows. Compiled at start by Janino, the compiler of Spark's own code
 * generation: plain Java without lambdas, with casts instead of generics. Runs on the driver only.
 */
public class Runtime {

  /**
   * The rows of a frame as a local relation, or null if there are more than `limit`. The rows stay internal rows: through
   * external ones maps lose their order and strings their bytes.
   */
  public LocalRelation local(Dataset frame, int limit) {
    final QueryExecution execution = frame.limit(limit + 1).queryExecution();
    InternalRow[] rows = collected(execution, "collect");
    if (rows.length > limit) return null;
    Seq data = scala.jdk.javaapi.CollectionConverters.asScala(Arrays.asList((Object[]) rows)).toSeq();
    return new LocalRelation(DataTypeUtils.toAttributes(frame.schema()), data, false, scala.Option.empty());
  }

  public Dataset frame(LocalRelation relation, SparkSession session) {
    return Dataset.ofRows(session, relation);
  }

  /**
   * The number of rows and, for each of the BIGINT and BOOLEAN columns that are named, separated by commas, the sum of its
   * positive values, with 1 for true, and that of its negative ones.
   */
  public String measured(LocalRelation relation, String summed) {
    InternalRow[] rows = rowsOf(relation);
    return summed.isEmpty() ? "" + rows.length : rows.length + "," + sums(rows, relation.schema(), summed.split(","));
  }

  private static InternalRow[] rowsOf(LocalRelation relation) {
    InternalRow[] rows = new InternalRow[relation.data().length()];
    int n = 0;
    for (scala.collection.Iterator each = relation.data().iterator(); each.hasNext(); ) {
      rows[n++] = (InternalRow) each.next();
    }
    return rows;
  }

  /** Two columns, a text and a number, as parts separated by the character 1: the text, the character 0 and the number. */
  public String pairs(LocalRelation relation) {
    InternalRow[] rows = rowsOf(relation);
    StringBuilder found = new StringBuilder();
    for (int r = 0; r < rows.length; r++) {
      found.append(r == 0 ? "" : "\u0001").append(rows[r].getUTF8String(0)).append('\u0000').append(rows[r].getLong(1));
    }
    return found.toString();
  }

  private static InternalRow[] collected(final QueryExecution execution, String what) {
    return (InternalRow[]) SQLExecution.withNewExecutionId(
        execution, scala.Option.apply(what), new AbstractFunction0() {
          public Object apply() {
            return execution.executedPlan().executeCollect();
          }
        });
  }

  private static String sums(InternalRow[] rows, StructType schema, String[] names) {
    StringBuilder found = new StringBuilder();
    for (int n = 0; n < names.length; n++) {
      int at = schema.fieldIndex(names[n]);
      boolean isBoolean = schema.apply(at).dataType().equals(DataTypes.BooleanType);
      long positive = 0;
      long negative = 0;
      for (int r = 0; r < rows.length; r++) {
        if (rows[r].isNullAt(at)) continue;
        long value = isBoolean ? (rows[r].getBoolean(at) ? 1L : 0L) : rows[r].getLong(at);
        if (value > 0) positive += value;
        else negative -= value;
      }
      found.append(n == 0 ? "" : ",").append(positive).append(",").append(negative);
    }
    return found.toString();
  }

  /**
   * A condition over the columns of `there` that holds for every row with, in each column, some value that `by` has in
   * the same place: null if nothing can be said. Up to `listed` values are listed.
   */
  public String within(LocalRelation by, Dataset there, int listed) {
    StructType given = by.schema();
    StructType wanted = there.schema();
    InternalRow[] rows = rowsOf(by);
    StringBuilder found = new StringBuilder();
    for (int k = 0; k < wanted.length(); k++) {
      DataType type = wanted.apply(k).dataType();
      // Other types are cast when they are compared, and their literals need not give back the very value.
      boolean plain = type.equals(DataTypes.IntegerType) || type.equals(DataTypes.LongType);
      if (!plain || !given.apply(k).dataType().equals(type)) continue;
      String name = "`" + wanted.apply(k).name().replace("`", "``") + "`";
      TreeSet values = new TreeSet();
      boolean nulls = false;
      for (int r = 0; r < rows.length; r++) {
        if (rows[r].isNullAt(k)) nulls = true;
        else values.add(Long.valueOf(type.equals(DataTypes.LongType) ? rows[r].getLong(k) : rows[r].getInt(k)));
      }
      String one = nulls ? name + " IS NULL" : "";
      if (!values.isEmpty()) {
        String range = name + " BETWEEN " + literal(values.first(), type) + " AND " + literal(values.last(), type);
        if (values.size() <= listed) {
          StringBuilder list = new StringBuilder();
          for (Iterator each = values.iterator(); each.hasNext(); ) {
            list.append(list.length() == 0 ? "" : ", ").append(literal(each.next(), type));
          }
          range = range + " AND " + name + " IN (" + list + ")";
        }
        one = one.isEmpty() ? range : one + " OR " + range;
      } else if (!nulls) {
        one = "false";
      }
      found.append(found.length() == 0 ? "" : " AND ").append("(").append(one).append(")");
    }
    return found.length() == 0 ? null : found.toString();
  }

  private static String literal(Object value, DataType type) {
    long number = ((Long) value).longValue();
    if (number == Long.MIN_VALUE) return "(-9223372036854775807L - 1L)";
    return type.equals(DataTypes.LongType) ? number + "L" : "CAST(" + number + "L AS INT)";
  }

  /** Let a session call `value` and `metadata` for the two binary parts of a VARIANT. */
  public void variantFunctions(SparkSession session, String value, String metadata) {
    FunctionRegistry registry = session.sessionState().functionRegistry();
    registry.createOrReplaceTempFunction(value, calling("getValue"), "scala_udf");
    registry.createOrReplaceTempFunction(metadata, calling("getMetadata"), "scala_udf");
  }

  private static AbstractFunction1 calling(final String method) {
    return new AbstractFunction1() {
      public Object apply(Object arguments) {
        Expression variant = (Expression) ((Seq) arguments).head();
        return new Invoke(
            variant, method, DataTypes.BinaryType, Nil$.MODULE$, Nil$.MODULE$, true, true, true);
      }
    };
  }
}
