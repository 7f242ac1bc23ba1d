"""What the tests of this room share: our programs, ready to be called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import standby


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with `sandwright` and `invoke`, which answer without starting Python anew."""
    with standby.calls(tmp_path_factory.mktemp("programs")) as directory:
        yield directory
