"""Recordings: the schema and its store, one SQLite file a run."""
