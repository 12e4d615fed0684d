"""The number formats: which precision, where autocast is on, loss scaling, and what really ran in low precision."""
