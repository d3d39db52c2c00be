"""What can go wrong, and which exit code of the command line each kind leads to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

Made = TypeVar("Made")

EXIT_VALID = 0
EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INVALID = 3
EXIT_INTERRUPTED = 130
"""By Ctrl-C, SIGTERM or SIGHUP; what shells say of a program that Ctrl-C ended."""


class EchelonError(Exception):
    """Base of every error that this project raises on purpose; its text is meant for the user."""

    exit_code = EXIT_FAILED

    @classmethod
    def told(cls, words: str) -> Self:
        """The same error by its words alone, as where another process had it."""
        found = cls.__new__(cls)
        Exception.__init__(found, words)
        return found


class InputError(EchelonError):
    """The user gave something that cannot work: says what, where, and what would be right."""

    exit_code = EXIT_BAD_INPUT


def about(key: str, action: Callable[[], Made]) -> Made:
    """What `action` returns; its InputError as one that begins with the key that it is about."""
    try:
        return action()
    except InputError as error:
        raise InputError("\n".join(f"{key}: {line}" for line in str(error).split("\n"))) from None


class PolicyError(InputError):
    """A policy raised, or returned an allocation that no network could carry."""


class RunError(EchelonError):
    """A run started and could not be finished: a process died, a wait ran out."""


class StorageError(EchelonError):
    """A file could not be written, though nothing was wrong with what was asked for: a full disk, no descriptors."""

    def __init__(self, reason: str, path: Path) -> None:
        super().__init__(f"{path}: {reason}")
