"""One preflight of each method for all projects of a run: a trial sandbox takes a third of a first start.

The product compares the host with the inputs of a stored finding, and starts another trial if they differ. So
a test with another bubblewrap or another setting of the kernel gets a finding for these.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest

FOLDER = "TESTS_PREFLIGHTS"
"""Environment variable: the directory of the shared findings, which the workers of a run inherit."""
FINDINGS = "preflight-*.json"
CACHE = ".cache/sandwright/sessions"


def start(stack: contextlib.ExitStack) -> None:
    """Make the directory of this run's findings, until the stack is closed."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="test-preflights-"))
    stack.enter_context(pytest.MonkeyPatch.context()).setenv(FOLDER, folder)


def seed(home: Path) -> None:
    """Copy the shared findings into a home without a cache."""
    found = list(Path(os.environ[FOLDER]).glob(FINDINGS))
    if not found or os.path.lexists(home / ".cache") or home.stat().st_uid != os.geteuid():
        return
    for folder in reversed([home / CACHE, *(home / CACHE).parents[:2]]):
        folder.mkdir(mode=0o700)
    for file in found:
        shutil.copyfile(file, home / CACHE / file.name)
        (home / CACHE / file.name).chmod(0o600)


def share(home: Path) -> None:
    """Share the findings in a home, unless the run already has some of these methods."""
    for file in (home / CACHE).glob(FINDINGS):
        shared = Path(os.environ[FOLDER], file.name)
        if not shared.exists():
            new = shared.with_name(f"new-{os.getpid()}")
            shutil.copyfile(file, new)
            new.rename(shared)
