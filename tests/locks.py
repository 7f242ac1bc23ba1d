"""Tests that share one thing of the machine run one at a time: `pytest.mark.exclusive("accounts")`.

A module keeps what its tests locked until the last of them in this worker has run, as its fixtures do.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path

import pytest

FOLDER = "TESTS_LOCKS"
"""Environment variable: the directory of a run's locks, which its workers inherit."""

_held: dict[str, int] = {}


def start(stack: contextlib.ExitStack) -> None:
    """Make the directory of this run's locks, until the stack is closed."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="test-locks-"))
    stack.enter_context(pytest.MonkeyPatch.context()).setenv(FOLDER, folder)


def acquire(item: pytest.Item) -> None:
    """Wait for everything that a test wants for itself, in one order everywhere."""
    for name in sorted({name for mark in item.iter_markers("exclusive") for name in mark.args} - set(_held)):
        _held[name] = os.open(Path(os.environ[FOLDER]) / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(_held[name], fcntl.LOCK_EX)


def release(item: pytest.Item, following: pytest.Item | None) -> None:
    """Give back what the next test of this worker can't use, as it is of another module."""
    if following is None or following.path != item.path:
        while _held:
            os.close(_held.popitem()[1])
