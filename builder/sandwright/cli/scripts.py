"""The completion scripts as they ship: `invoke docs` writes them, as making them imports every task."""

from __future__ import annotations

import os

SHELLS = ("bash", "fish", "zsh")


def path(shell: str) -> str:
    """Where the script of a shell lies."""
    return os.path.join(os.path.dirname(__file__), "completions", f"sandwright.{shell}")  # noqa: PTH118, PTH120


def script(shell: str) -> str:
    """The script of a shell."""
    with open(path(shell), encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs more than all the rest
        return file.read()
