package trickle.lake;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
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
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.InclusiveMetricsEvaluator;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.util.ContentFileUtil;
import org.apache.iceberg.util.DataFileSet;

/** The files of manifests, and the files of a snapshot that may hold some rows. Manifests never change: they are cached. */
public class Manifests {

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

  // -- snapshots --------------------------------------------------------------------------------------------------------

  /** The files of a snapshot that may hold rows the filter is true for. */
  static List planned(Table table, Schema schema, long snapshot, Expression filter) throws Exception {
    InclusiveMetricsEvaluator may = new InclusiveMetricsEvaluator(schema, filter);
    Snapshot at = table.snapshot(snapshot);
    Map found = new LinkedHashMap();
    for (Iterator manifests = at.dataManifests(table.io()).iterator(); manifests.hasNext(); ) {
      for (Iterator files = filesOf((ManifestFile) manifests.next(), table).iterator(); files.hasNext(); ) {
        DataFile file = (DataFile) files.next();
        if (!isDoubtful(file, schema) && !may.eval(file)) continue;
        if (found.put(file.location(), new PlannedFile(file)) != null) throw new Unsuited("a file that is there twice");
      }
    }
    for (Iterator manifests = at.deleteManifests(table.io()).iterator(); manifests.hasNext(); ) {
      for (Iterator files = filesOf((ManifestFile) manifests.next(), table).iterator(); files.hasNext(); ) {
        DeleteFile file = (DeleteFile) files.next();
        String of = ContentFileUtil.referencedDataFileLocation(file);
        if (of == null) throw new Unsuited("deletes that name no data file");
        PlannedFile target = (PlannedFile) found.get(of);
        if (target == null || file.dataSequenceNumber().longValue() < target.file.dataSequenceNumber().longValue()) {
          continue;
        }
        target.deletes.add(file);
      }
    }
    for (Iterator all = found.values().iterator(); all.hasNext(); ) onlyVectors(((PlannedFile) all.next()).deletes);
    return new ArrayList(found.values());
  }

  /**
   * Whether a bound of a text is not one: the writer of statistics decodes texts, and bytes that are not valid UTF-8
   * become U+FFFD.
   */
  static boolean isDoubtful(DataFile file, Schema schema) {
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
  static void onlyVectors(List deletes) {
    List vectors = new ArrayList();
    for (int i = 0; i < deletes.size(); i++) {
      if (((DeleteFile) deletes.get(i)).format() == FileFormat.PUFFIN) vectors.add(deletes.get(i));
    }
    if (!vectors.isEmpty()) deletes.retainAll(vectors);
  }

  static PositionDeleteIndex deletes(final FileIO io, DataFile file, List deletes) {
    if (deletes.isEmpty()) return PositionDeleteIndex.empty();
    for (int i = 0; i < deletes.size(); i++) {
      if (((DeleteFile) deletes.get(i)).content() != FileContent.POSITION_DELETES) {
        throw new Unsuited("equality deletes");
      }
    }
    return loaded(io, file.location(), deletes);
  }

  static PositionDeleteIndex loaded(final FileIO io, String path, List deletes) {
    return new BaseDeleteLoader(new Function() {
      public Object apply(Object of) {
        return io.newInputFile(((DeleteFile) of).location());
      }
    }).loadPositionDeletes(deletes, path);
  }

  // -- an LRU cache, because manifests never change ---------------------------------------------------------------------

  /** Files of manifests, which never change: an LRU cache by the path of the manifest, of so many statistics in all. */
  private static final Map MANIFESTS = new LinkedHashMap(16, 0.75f, true);

  private static final long CACHED_STATISTICS = 400000;
  private static long cached = 0;

  /** The files of a manifest with their statistics. */
  static List filesOf(ManifestFile manifest, Table table) throws Exception {
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

  static List cached(String key) {
    synchronized (MANIFESTS) {
      return (List) MANIFESTS.get(key);
    }
  }

  static void keep(String key, List files) {
    synchronized (MANIFESTS) {
      if (MANIFESTS.put(key, files) == null) cached += weight(files);
      Iterator eldest = MANIFESTS.values().iterator();
      while (cached > CACHED_STATISTICS && MANIFESTS.size() > 1) {
        cached -= weight((List) eldest.next());
        eldest.remove();
      }
    }
  }

  static long weight(List files) {
    long found = 1;
    for (int i = 0; i < files.size(); i++) {
      Map counts = ((ContentFile) files.get(i)).valueCounts();
      found += 1 + (counts == null ? 0 : counts.size());
    }
    return found;
  }
}
