package trickle.lake;

import java.util.ArrayList;
import java.util.List;
import org.apache.iceberg.DataFile;

/** A data file with the position deletes of it. */
final class PlannedFile {
  final DataFile file;
  final List deletes = new ArrayList();

  PlannedFile(DataFile file) {
    this.file = file;
  }
}
