"""What the seccomp tests share: libseccomp as a judge."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os

import pytest

REQUIRED = frozenset(os.environ.get("SANDWRIGHT_REQUIRE", "").split(","))


@pytest.fixture(scope="session")
def libseccomp() -> None:
    """The library, through pyseccomp. Skips by name without it; fails where it is required."""
    missing = [
        *([] if ctypes.util.find_library("seccomp") else ["libseccomp"]),
        *([] if importlib.util.find_spec("pyseccomp") else ["pyseccomp"]),
    ]
    if missing:
        fail = {"all", "libseccomp"} & REQUIRED
        (pytest.fail if fail else pytest.skip)(f"{' and '.join(missing)} not installed")
