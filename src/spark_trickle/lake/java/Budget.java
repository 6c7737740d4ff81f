package trickle.lake;

/** How much may be read on the driver. */
final class Budget {
  /** Measured: 120 ns for a cell that becomes a value of Spark, 10 to 15 for one that is passed over. */
  private static final int PASSED = 8;
  /** Rows of a row group whose keys are compared: three lists of them, of 32 MB each, are held for a moment. */
  private static final int LISTED = 4_000_000;

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
    if (compared > LISTED || compared / PASSED > cells) throw new Unsuited("many pages");
  }
}
