"""Recordings: the schema and its store, one SQLite file a run."""

__all__ = ["Recording", "Writer", "open_recording", "write_ending"]

from flatout.recording.ending import write_ending
from flatout.recording.reader import Recording, open_recording
from flatout.recording.writer import Writer
