"""What the seccomp tests share: libseccomp as a judge, and files that are compared byte for byte."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent.parent / "golden" / "seccomp"
UPDATE = os.environ.get("SANDWRIGHT_UPDATE_GOLDEN") == "1"
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


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares text with a committed file; SANDWRIGHT_UPDATE_GOLDEN=1 writes it instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if UPDATE:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, (
            f"{name} differs: SANDWRIGHT_UPDATE_GOLDEN=1 rewrites it"
        )

    return compare
