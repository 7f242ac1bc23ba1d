"""A place for homes and projects that sandboxes don't hide, as they hide their temporary directory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def place() -> Iterator[Path]:
    """A new directory outside of /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="sandwright-test-") as made:
        yield Path(made)
