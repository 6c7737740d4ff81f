"""The numbers that decide how a refresh is executed: they cost or save time, and change no row.

Each says what it decides and what it was measured on. "Not measured": there is no record of a measurement, the number
is right in its order of magnitude at best, and a measurement may change it. What users may set is in `config`.
"""

from __future__ import annotations

# -- relations of a refresh ------------------------------------------------------------------------------------------

# Up to this many rows a relation is kept on the driver, as a local relation; a larger one is checkpointed. That this
# pays was seen on refreshes of ten rows (docs/decisions/0004). The limit: not measured.
LOCAL = 30_000
# Changes and lists of keys of at most this many rows are broadcast, written as one file, and planned without adaptive
# execution. Not measured.
SMALL = 100_000
# Joins, aggregates and windows up to which a statement over rows on the driver that Spark must run is one task. Each
# takes pages of memory, of 32 MB with a heap of 2 GB: fifty of them at once left no memory for anything else.
ONE_PIECE = 4
# Of a table with more rows a delta first finds out which it needs: a join from a change goes in steps, restrictions are
# pushed down. Smaller ones are read whole on the driver. Made for TPC-H at SF 1, where refreshes took 2 to 8 times as
# long as their queries (docs/decisions/0011). A Spark job over 50,000 rows takes 120 ms, a lookup of ten of them 9 ms
# (docs/decisions/0020). The limit itself: not measured.
LARGE = 10_000
# What a condition on one input of a join is taken to leave of its rows, for the order of joins. A guess, not measured.
FILTERED_SHARE = 0.5
# Up to this many positions of rows that leave go through the driver; beyond, Spark deletes them with SQL. Measured for
# two rows in a small table, where the driver took 0.27 s and SQL 0.71 s (docs/decisions/0002). The limit: not measured.
MANY_POSITIONS = 200_000

# Share of the stored groups from which on affected groups are recomputed with all others: a semi join with the keys of
# most groups leaves out few rows and costs more than reading them (60M rows: 6.6 s beside 3.3 s). The limit: not
# measured.
MOST_GROUPS = 0.5

# Keys up to which a scan gets them as an IN list, besides their range. Iceberg asks statistics about at most 200,
# dictionaries and bloom filters about longer ones. Not measured.
LISTED_KEYS = 1_000
# Cells (rows of pages, times columns) up to which rows at known positions, or with known keys, are read on the driver.
# Measured on 1M orders in two files, 4 columns: three keys are 200,000 cells and 35 to 70 ms beside a busy machine, a
# million cells are 180 ms; a Spark job that scans the table for them takes 300 ms (docs/decisions/0018).
DRIVER_CELLS = 2_000_000
# Data files that such a read opens at most, after pruning by statistics; small ones whose values are known are not
# opened. About 2 ms each on a local disk.
DRIVER_FILES = 256
# Bytes of new or removed data files, or of a small table, that are read there: rows may be long. Not measured.
DRIVER_BYTES = 16_000_000

# -- the change feed -------------------------------------------------------------------------------------------------

# A history is read in pieces, cut at compactions; if there are more than this many, its two ends are compared.
# Not measured.
MANY_STRETCHES = 8
# Touched files up to which the driver loads deleted positions, to read only the rows in question. Not measured.
INDEXED_FILES = 64
# Deleted positions of all touched files up to which they go through the driver, or are broadcast. Not measured.
INDEXED_POSITIONS = 100_000
# Files of a Delta Lake table that are looked at together, because an object store takes its time for each.
# Not measured.
FILES_AT_ONCE = 8

# Feeds that are kept for the next stream table over the same source and columns, in the same tick above all, and the
# rows up to which one is: such a change is read in 40 ms (docs/performance.md). Not measured.
KEPT_FEEDS = 32
KEPT_FEED_ROWS = 5_000

# -- the change log --------------------------------------------------------------------------------------------------

# Entries that are kept per stream table; a consumer that lags behind them compares snapshots. Not measured.
LOG_ENTRIES = 500
# Rows of a delta up to which its log entry is one file. Not measured.
LOG_FILE_ROWS = 100_000

# -- maintenance ------------------------------------------------------------------------------------------------------

# Files below this are merged with each other, whatever their size: what a file costs a reader is opening it.
TINY_BYTES = 1_000_000
# Larger ones are merged with those up to this many times as large. A row is then written again once per tier. Not
# measured.
TIER = 8
# Share of deleted rows from which on a file is written anew. After it as many rows must be deleted again for the next
# time, so a deleted row costs at most 1 / 0.3 rows written. Not measured.
MANY_DELETED = 0.3
# Bytes of data files that one pass rewrites, so that a refresh waits for it some seconds at most. Not measured.
REWRITTEN_BYTES = 256_000_000
# Expired snapshots for which a pass begins: it costs about what a small refresh does (make long-run).
EXPIRED_AT_ONCE = 20
# Snapshots that one pass expires: the lease is held meanwhile, and all their manifests are read. Not measured.
EXPIRED_PER_PASS = 500
# Files that one row of garbage names.
GARBAGE_FILES = 200
# Rows of garbage that are deleted by one refresh, of those that refreshes make, and by one look of the upkeep thread.
# Not measured.
SWEPT_BY_REFRESH = 20
SWEPT_AT_ONCE = 50
# Seconds after which a dropped table is looked at again that a cut or an attempt held.
HELD_SECONDS = 600
# Rows of the history that are deleted in one transaction. Not measured.
TRIMMED_ROWS = 5_000

# -- what AUTO does --------------------------------------------------------------------------------------------------

# A past DIFFERENTIAL says something about this one only if this change has at least that share of its rows.
# Not measured.
COMPARABLE_SHARE = 0.5
# DIFFERENTIAL refreshes that must have been slower than FULL to give up on it: one may only have been a cold start.
# Not measured.
SLOW_REFRESHES = 2
# Recomputations whose faster one tells what the next would take: one may have met a busy machine, older ones a smaller
# table. Simulated (tests/refresh/test_decide.py).
RECENT_FULLS = 2
# Refreshes that are looked at for that. Not measured.
PAST_REFRESHES = 100
# What AUTO may spend on trying the way that was slower, as a share of the seconds spent since it was last tried. With
# it, ten refreshes of a table for which DIFFERENTIAL takes twice as long cost at most 1.2 times as long as ten of FULL
# (tests/refresh/test_decide.py).
EXPLORED = 0.05
# The same for the one trial of FULL beside its first fill.
EXPLORED_ONCE = 0.5
# The first fill of a stream table may have met a process that had just started, where plans take up to this many times
# as long. Spark's first statements of a process take 3 to 10 times as long as its tenth.
COLD_START = 4

# -- monitoring --------------------------------------------------------------------------------------------------------

# Seconds between which durations of refreshes are told apart, in `/metrics` and in what is kept of old history.
DURATIONS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)

# -- elsewhere -------------------------------------------------------------------------------------------------------

# Rows of all inputs together up to which `check_definition = auto` runs a definition beside its text. Said to cost
# about a second then; on which machine and definition is not recorded.
CHECKED_ROWS = 1_000_000
# Names or ids that one statement to the catalog lists; past this many names, reading every pointer is taken to be
# cheaper. Not measured.
LISTED_NAMES = 500
