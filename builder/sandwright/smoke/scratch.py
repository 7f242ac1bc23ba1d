"""The directory that all temporary things of a smoke run lie in."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sandwright.smoke.contract import PREFIX


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A temporary directory for runtimes. Gone at the end, with what other users' ids own in it if we may."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        # Others must be able to pass: the sandbox's user looks its root up through it.
        Path(name).chmod(0o711)
        yield Path(name)
