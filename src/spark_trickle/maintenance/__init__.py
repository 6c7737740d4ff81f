"""Upkeep of stream tables: compaction, snapshot expiry, old files and old history."""
