"""Every error that flatout raises on purpose.

    FlatoutError                what went wrong, and what to do; `exit_code` is the command's
    ├── UsageError              the command line or a call is off (exit code 2)
    │   └── UnknownGPUError     no GPU of that name in the table; lists the nearest names
    ├── UnreadableFileError     a file that cannot be read as what it should be (exit code 2)
    │   ├── RecordingError      not a recording, damaged, or of another schema version
    │   └── CheckpointError     not a checkpoint, cut off, or of another model or run
    ├── TrainingError           the training itself has gone wrong: a loss that is NaN, no gradients (exit code 1)
    ├── ScriptError             the user's script could not be started or followed (exit code 2)
    └── UnsupportedError        something that the virtual GPU refuses by name (exit code 1)

Errors of the *simulated* GPU (``torch.OutOfMemoryError`` and CUDA's own messages) are not in this tree: a script must
be able to catch them as it would on a real machine.
"""

from __future__ import annotations


class FlatoutError(Exception):
    """Base of all errors that flatout raises on purpose.

    The message names the offending thing, the rule that it broke and what to do.
    """

    exit_code = 2


class UsageError(FlatoutError):
    """The command line, or a call of the library, cannot be understood."""


class UnknownGPUError(UsageError):
    """No GPU of that name is in the table. The message lists the nearest names."""


class UnreadableFileError(FlatoutError):
    """A file that cannot be read as what it should be."""


class RecordingError(UnreadableFileError):
    """A file that is not a recording, is damaged, or has another schema version."""


class CheckpointError(UnreadableFileError):
    """A file that is not a checkpoint, is cut off, or belongs to another model or another run."""


class TrainingError(FlatoutError):
    """The training itself has gone wrong: a loss that is not a number, parameters without gradients."""

    exit_code = 1


class ScriptError(FlatoutError):
    """The user's script could not be started or followed."""


class UnsupportedError(FlatoutError, RuntimeError):
    """Something that the virtual GPU refuses by name instead of answering wrongly.

    Also a ``RuntimeError``: PyTorch code that tries a feature and falls back when it is absent goes on as it would.
    """

    exit_code = 1
