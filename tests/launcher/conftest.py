"""The launcher's parsers, built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from sanitized import built


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("harness") / "harness"
    return built(made, "cc", "-fsanitize=address,undefined", "-DSHOW")
