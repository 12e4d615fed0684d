"""A result, told: to a terminal, or as JSON."""

from flatout.report.json_file import json_text, write_json
from flatout.report.terminal import print_prediction

__all__ = ["json_text", "print_prediction", "write_json"]
