"""Rules that tests put in place of the real ones: what they find is plain to see in a text."""
