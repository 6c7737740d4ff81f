"""The catalog: stream tables, frontiers, history and leases, in the same database as Iceberg's pointers."""
