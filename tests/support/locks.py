"""Tests that share an object of the machine run one at a time: `pytest.mark.exclusive("accounts")`.

A module keeps its tests' locks until the last of them in this worker has run, like its fixtures.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = "TESTS_LOCKS"
"""Environment variable: the directory of a run's locks, which its workers inherit."""

CHANGE_WAIT = 30.0
"""Seconds."""
SANDBOXES = {
    "bridge", "cli", "documentation", "egress", "launcher", "methods", "policy",
    "render", "session", "verify", "test_mapping_rootless.py",
}  # fmt: skip
"""The directories and modules of tests that start sandboxes with the files of this machine."""

_held: dict[str, int] = {}
_shadow: list[int] = []
"""This process's shared lock, while a test of SANDBOXES runs."""


def starts_sandboxes(item: pytest.Item) -> bool:
    """Whether a test starts sandboxes with the files of this machine."""
    return bool(SANDBOXES & set(item.path.parts))


def changes_accounts(item: pytest.Item) -> bool:
    """Whether a test makes or removes accounts of this machine."""
    return any("accounts" in mark.args for mark in item.iter_markers("exclusive"))


def start(stack: contextlib.ExitStack) -> None:
    """Make the directory of this run's locks, until the stack is closed."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="test-locks-"))
    stack.enter_context(pytest.MonkeyPatch.context()).setenv(FOLDER, folder)


def acquire(item: pytest.Item) -> None:
    """Wait for everything that a test needs exclusively, in one order everywhere."""
    for name in sorted({name for mark in item.iter_markers("exclusive") for name in mark.args} - set(_held)):
        _held[name] = _open(name)
        fcntl.flock(_held[name], fcntl.LOCK_EX)


@contextlib.contextmanager
def accounts_as_they_are(item: pytest.Item) -> Iterator[None]:
    """Prevent changes of accounts while a test starts sandboxes.

    useradd(8) replaces /etc/shadow and /etc/subuid. A sandbox that hides the first ends when its mount is
    replaced, and a mount over the second disappears.
    """
    if not starts_sandboxes(item):
        yield
        return
    with _locked("gate", fcntl.LOCK_SH):
        shared = _open("shadow")
        fcntl.flock(shared, fcntl.LOCK_SH)
    _shadow.append(shared)
    try:
        yield
    finally:
        _shadow.remove(shared)
        os.close(shared)


@contextlib.contextmanager
def accounts_change() -> Iterator[None]:
    """Wait for the tests that start sandboxes, at most CHANGE_WAIT seconds, and prevent further ones."""
    if "accounts" not in _held:
        raise RuntimeError('a test that changes accounts needs pytest.mark.exclusive("accounts")')
    for own in _shadow:
        fcntl.flock(own, fcntl.LOCK_UN)
    with _locked("gate", fcntl.LOCK_EX):
        shadow = _open("shadow")
        until = time.monotonic() + CHANGE_WAIT
        try:
            while time.monotonic() < until:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(shadow, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(0.05)
            yield
        finally:
            os.close(shadow)
            for own in _shadow:
                fcntl.flock(own, fcntl.LOCK_SH)


@contextlib.contextmanager
def alone(name: str) -> Iterator[Path]:
    """One process of this run at a time; gives the directory that the run's workers share."""
    with _locked(name, fcntl.LOCK_EX):
        yield Path(os.environ[FOLDER])


@contextlib.contextmanager
def _locked(name: str, kind: int) -> Iterator[None]:
    lock = _open(name)
    try:
        fcntl.flock(lock, kind)
        yield
    finally:
        os.close(lock)


def _open(name: str) -> int:
    return os.open(Path(os.environ[FOLDER]) / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def release(item: pytest.Item, following: pytest.Item | None) -> None:
    """Release the locks that the next test of this worker can't use, because it is of another module."""
    if following is None or following.path != item.path:
        while _held:
            os.close(_held.popitem()[1])
