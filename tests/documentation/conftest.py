"""Fixtures for the tests of this directory: our programs, on PATH."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

import sandwright
from sandwright import process
from support import fronts, standby


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `sandwright` and `invoke`, which answer without starting Python anew."""
    return standby.programs(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="session")
def environment_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a virtual environment with the installed command, into which a test may install."""
    folder = tmp_path_factory.mktemp("environment")
    process.run(sys.executable, "-m", "venv", "--without-pip", folder, timeout=60)
    (packages,) = folder.glob("lib/python3*/site-packages")
    shared = (Path(yaml.__file__).parents[1], Path(sandwright.__file__).parents[1])
    (packages / "shared.pth").write_text("".join(f"{path}\n" for path in shared))
    fronts.installed(folder / "bin", str(folder / "bin" / "python3"))
    return folder / "bin"
