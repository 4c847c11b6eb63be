"""The exception tree. Whatever a user can cause is an `EaseError`.

EaseError
├── UsageError            what was asked for cannot be done: exit code 2
│   ├── ConfigError         a recipe, key, value or argument is wrong
│   ├── DataError           a file, corpus or split is wrong or too small
│   │   └── LeakError         a split was opened by someone who may not read it
│   └── MissingExtraError   an optional dependency is not installed
└── RunError              a run began and could not go on: exit code 1
    ├── NonFiniteError      a loss or gradient was not finite
    ├── StorageError        a file of the run could not be written
    └── InterruptedRunError       the user stopped it; the run can be resumed
"""

from __future__ import annotations


class EaseError(Exception):
    """Root of every error that ease raises on purpose."""

    exit_code = 1


class UsageError(EaseError, ValueError):
    """What was asked for cannot be done as it was asked."""

    exit_code = 2


class ConfigError(UsageError):
    """A recipe, key, value or argument is wrong."""


class DataError(UsageError):
    """A file, corpus or split is wrong, empty or too small."""


class LeakError(DataError):
    """A split was opened by someone who may not read it."""


class MissingExtraError(UsageError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra: pip install -e '.[{extra}]'")


class RunError(EaseError, RuntimeError):
    """A run began and could not go on."""


class NonFiniteError(RunError):
    """A loss or gradient was not finite; the weights were not touched."""

    def at(self, place: str) -> NonFiniteError:
        """The same error, naming where it happened and what can be done."""
        return NonFiniteError(
            f"{self} at {place}; the weights were not touched. "
            "Lower the learning rate, or look at that batch"
        )


class StorageError(RunError):
    """A file of the run could not be written."""


class InterruptedRunError(RunError):
    """The user stopped the run; it can be resumed."""

    exit_code = 130
