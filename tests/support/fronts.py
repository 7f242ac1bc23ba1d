"""The installed command `sandwright`: the native program, beside the script with which it starts Python."""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

import sandwright
from sandwright.front import FRONT

MACHINES = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}
SCRIPTS = Path(sandwright.__file__).parents[1] / "bin"


def installed(folder: Path, python: str = sys.executable) -> Path:
    """The command, as an installer puts it into a directory."""
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / "sandwright"
    shutil.copy(FRONT.path(MACHINES[platform.machine()]), command)
    _, _, script = (SCRIPTS / "sandwright-interpreter").read_text().partition("\n")
    (folder / "sandwright-interpreter").write_text(f"#!{python}\n{script}")
    return command
