"""What all tests need of the process that runs them."""

from __future__ import annotations

import random
import signal
import sys

import pytest

# A job in the background of a shell, or of a CI runner, may be started with Ctrl-C ignored. Programs that it starts
# inherit that, and tests of Ctrl-C would wait in vain: with a handler here, theirs is the default one again.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _the_same_random_numbers() -> None:
    """A test that draws numbers gives the same answer on every machine and after whichever tests ran before it."""
    random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)
