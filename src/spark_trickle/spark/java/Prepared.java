package trickle.runtime;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.memory.MemoryManager;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.memory.UnifiedMemoryManager;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction0;

/**
 * Statements over few rows, all of them on the driver. Spark plans a statement once; later runs of the same text put
 * other rows under the same physical plan, and evaluate it in the calling thread: no parsing, no planning, no job.
 *
 * Only plans of one partition and of operators that are known to read their input anew in every run are kept
 * (`OPERATORS`); for all others the answer is null, and Spark runs the statement. Compiled at start by Janino (see
 * runtime.py).
 */
public class Prepared {

  private static final Set OPERATORS = new HashSet(Arrays.asList(new String[] {
      "ProjectExec", "FilterExec", "UnionExec", "CoalesceExec", "SortExec", "SortMergeJoinExec", "ShuffledHashJoinExec",
      "CartesianProductExec", "HashAggregateExec", "ObjectHashAggregateExec", "SortAggregateExec", "ExpandExec",
      "GenerateExec", "WindowExec", "WindowGroupLimitExec", "LocalLimitExec", "GlobalLimitExec", "CollectLimitExec",
      "TakeOrderedAndProjectExec", "RDDScanExec", "LocalTableScanExec", "OneRowRelationExec"}));

  /** How these statements are planned: code is not generated, nothing is broadcast, everything is one partition. */
  private static final String[][] SETTINGS = {
      {"spark.sql.adaptive.enabled", "false"},
      {"spark.sql.shuffle.partitions", "1"},
      {"spark.sql.leafNodeDefaultParallelism", "1"},
      {"spark.sql.codegen.wholeStage", "false"},
      {"spark.sql.codegen.factoryMode", "NO_CODEGEN"},
      {"spark.sql.maxSinglePartitionBytes", "9223372036854775807"},  // leaves do not tell their size
      {"spark.sql.autoBroadcastJoinThreshold", "-1"}};

  private static final int KEPT = 400;
  private static final long MEMORY = 256L << 20;
  private static final AtomicLong TASKS = new AtomicLong(1L << 40);

  /** An LRU cache. */
  private final Map plans = new LinkedHashMap(16, 0.75f, true) {
    protected boolean removeEldestEntry(Map.Entry eldest) {
      return size() > KEPT;
    }
  };

  private MemoryManager memory = null;

  /**
   * The rows of a statement that reads the relations under these names and nothing else; null if it cannot be run here,
   * or has more than `limit` rows.
   */
  public LocalRelation run(SparkSession session, String sql, List names, List relations, int limit) {
    List key = key(session, sql, relations);
    Plan plan;
    synchronized (plans) {
      plan = (Plan) plans.get(key);
    }
    if (plan == null) {
      synchronized (session) {  // it has the views meanwhile
        plan = prepared(session, sql, names, relations);
      }
      synchronized (plans) {
        plans.put(key, plan);
      }
    }
    if (plan.rdd == null) return null;
    LocalRelation found = null;
    boolean well = false;
    try {
      found = plan.run(relations, limit, memory(session.sparkContext()));
      well = true;
    } finally {
      // An expression may hold what it had begun when it failed (the writer of to_json does).
      if (!well) forget(key);
    }
    return found;
  }

  private void forget(List key) {
    synchronized (plans) {
      plans.remove(key);
    }
  }

  /** Forget the plans of a session that is used no more. */
  public void forget(SparkSession session) {
    synchronized (plans) {
      for (Iterator keys = plans.keySet().iterator(); keys.hasNext(); ) {
        if (((Session) ((List) keys.next()).get(0)).session == session) keys.remove();
      }
    }
  }

  /** Pages of Spark's own memory are megabytes, for a few rows each. */
  private synchronized MemoryManager memory(SparkContext context) {
    if (memory == null) {
      SparkConf conf = context.conf().clone().set("spark.buffer.pageSize", "256k");
      conf.set("spark.memory.offHeap.enabled", "false");
      memory = new UnifiedMemoryManager(conf, MEMORY, MEMORY / 16, 2);
    }
    return memory;
  }

  /** A session as a part of a key: the same object or not. */
  private static class Session {
    final SparkSession session;

    Session(SparkSession session) {
      this.session = session;
    }

    public boolean equals(Object other) {
      return other instanceof Session && ((Session) other).session == session;
    }

    public int hashCode() {
      return System.identityHashCode(session);
    }
  }

  /** Whatever bears on the plan: session, text, settings, and the types of the relations. */
  private static List key(SparkSession session, String sql, List relations) {
    scala.collection.immutable.Map settings = session.sessionState().conf().getAllConfs();
    for (int i = 0; i < SETTINGS.length; i++) {
      settings = (scala.collection.immutable.Map) settings.removed(SETTINGS[i][0]);
    }
    List key = new ArrayList();
    key.add(new Session(session));
    key.add(sql);
    key.add(settings);
    for (int i = 0; i < relations.size(); i++) key.add(((LocalRelation) relations.get(i)).schema());
    return key;
  }

  private static Plan prepared(final SparkSession session, final String sql, List names, List relations) {
    Leaf[] leaves = new Leaf[relations.size()];
    SQLConf conf = session.sessionState().conf();
    String[] before = new String[SETTINGS.length];
    for (int i = 0; i < SETTINGS.length; i++) {
      before[i] = conf.contains(SETTINGS[i][0]) ? conf.getConfString(SETTINGS[i][0]) : null;
      conf.setConfString(SETTINGS[i][0], SETTINGS[i][1]);
    }
    Plan found = null;
    try {
      for (int i = 0; i < leaves.length; i++) {
        leaves[i] = new Leaf(session.sparkContext());
        StructType type = ((LocalRelation) relations.get(i)).schema();
        LogicalRDD leaf = new LogicalRDD(DataTypeUtils.toAttributes(type), leaves[i], SinglePartition$.MODULE$,
            Nil$.MODULE$, false, scala.Option.empty(), session, scala.Option.empty(), scala.Option.empty());
        Dataset.ofRows(session, leaf).createOrReplaceTempView((String) names.get(i));
      }
      Dataset frame = session.sql(sql);
      found = planned(frame.queryExecution().executedPlan(), frame.schema(), leaves, conf.clone());
    } finally {
      for (int i = 0; i < leaves.length; i++) session.sessionState().catalog().dropTempView((String) names.get(i));
      for (int i = 0; i < SETTINGS.length; i++) {
        if (before[i] == null) conf.unsetConf(SETTINGS[i][0]);
        else conf.setConfString(SETTINGS[i][0], before[i]);
      }
    }
    return found;
  }

  private static Plan planned(SparkPlan plan, StructType type, Leaf[] leaves, SQLConf conf) {
    RDD rdd = suits(plan) ? plan.execute() : null;
    if (rdd == null || rdd.partitions().length != 1 || shuffles(rdd)) return new Plan(null, null, null, null);
    return new Plan(rdd, leaves, type, conf);
  }

  private static boolean suits(SparkPlan plan) {
    if (!plan.getClass().getName().startsWith("org.apache.spark.sql.execution.")) return false;
    if (!OPERATORS.contains(plan.getClass().getSimpleName())) return false;
    for (scala.collection.Iterator each = plan.expressions().iterator(); each.hasNext(); ) {
      Expression expression = (Expression) each.next();
      if (!expression.deterministic() || !suits(expression)) return false;
    }
    for (scala.collection.Iterator each = plan.children().iterator(); each.hasNext(); ) {
      if (!suits((SparkPlan) each.next())) return false;
    }
    return true;
  }

  private static boolean suits(Expression expression) {
    if (expression instanceof PlanExpression || expression instanceof UserDefinedExpression) return false;
    for (scala.collection.Iterator each = expression.children().iterator(); each.hasNext(); ) {
      if (!suits((Expression) each.next())) return false;
    }
    return true;
  }

  /** Whether rows are written for others to read: they would be those of the first run. */
  private static boolean shuffles(RDD rdd) {
    for (scala.collection.Iterator each = rdd.dependencies().iterator(); each.hasNext(); ) {
      Dependency dependency = (Dependency) each.next();
      if (dependency instanceof ShuffleDependency || shuffles(dependency.rdd())) return true;
    }
    return false;
  }

  /** A physical plan as Spark would run it, over rows that can be exchanged. One thread at a time. */
  private static class Plan {
    final RDD rdd;  // null: not to be run here
    final Leaf[] leaves;
    final StructType type;
    final SQLConf conf;
    final Properties properties;

    Plan(RDD rdd, Leaf[] leaves, StructType type, SQLConf conf) {
      this.rdd = rdd;
      this.leaves = leaves;
      this.type = type;
      this.conf = conf;
      this.properties = conf == null ? null : propertiesOf(conf);
    }

    synchronized LocalRelation run(List relations, final int limit, MemoryManager manager) {
      for (int i = 0; i < leaves.length; i++) leaves[i].rows = ((LocalRelation) relations.get(i)).data();
      long id = TASKS.incrementAndGet();
      TaskMemoryManager memory = new TaskMemoryManager(manager, id);
      final TaskContextImpl task = new TaskContextImpl(0, 0, 0, id, 0, 1, memory, properties, null,
          new TaskMetrics(), 1, scala.collection.immutable.Map$.MODULE$.empty());
      List rows = null;
      try {
        rows = (List) SQLConf$.MODULE$.withExistingConf(conf, new AbstractFunction0() {
          public Object apply() {
            return rows(task, limit);
          }
        });
      } finally {
        memory.cleanUpAllAllocatedMemory();
        for (int i = 0; i < leaves.length; i++) leaves[i].rows = null;
      }
      if (rows == null) return null;
      Seq data = scala.jdk.javaapi.CollectionConverters.asScala(rows).toSeq();
      return new LocalRelation(DataTypeUtils.toAttributes(type), data, false, scala.Option.empty());
    }

    private List rows(TaskContextImpl task, int limit) {
      List rows = new ArrayList();
      TaskContext$.MODULE$.setTaskContext(task);
      try {
        collect(task, limit, rows);
      } finally {
        completed(task);
      }
      return rows.size() > limit ? null : rows;
    }

    private void collect(TaskContextImpl task, int limit, List into) {
      scala.collection.Iterator found = rdd.iterator(rdd.partitions()[0], task);
      while (into.size() <= limit && found.hasNext()) {
        into.add(((InternalRow) found.next()).copy());  // an operator gives the same row again and again
      }
    }

    private static void completed(TaskContextImpl task) {
      try {
        task.markTaskCompleted(scala.Option.empty());
      } finally {
        TaskContext$.MODULE$.unset();
      }
    }

    /** Where expressions in a task look for settings. */
    private static Properties propertiesOf(SQLConf conf) {
      Properties found = new Properties();
      for (scala.collection.Iterator each = conf.getAllConfs().iterator(); each.hasNext(); ) {
        scala.Tuple2 entry = (scala.Tuple2) each.next();
        found.setProperty((String) entry._1(), (String) entry._2());
      }
      return found;
    }
  }

  /** The rows of a relation, whichever they are in this run. */
  private static class Leaf extends RDD {
    transient volatile Seq rows = null;

    Leaf(SparkContext context) {
      super(context, Nil$.MODULE$, ClassTag$.MODULE$.apply(InternalRow.class));
    }

    public scala.collection.Iterator compute(Partition split, TaskContext task) {
      return rows.iterator();
    }

    public Partition[] getPartitions() {
      return new Partition[] {new Only()};
    }
  }

  private static class Only implements Partition {
    public int index() {
      return 0;
    }

    public boolean org$apache$spark$Partition$$super$equals(Object other) {
      return this == other;
    }
  }
}
