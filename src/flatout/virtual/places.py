"""Which line of the user's own source is running: as `flatout.steps` knows it."""

from __future__ import annotations

from flatout.steps.places import is_users_own, reading_line, user_frame, user_place

__all__ = ["is_users_own", "reading_line", "user_frame", "user_place"]
