"""The program that watches over a sandbox's mounts: small static C beside this module, for each platform.

The programs are kept with their sources, so that nobody who uses them needs a compiler. `programs.json` says
with which version of Zig they were built, and their digests; a test builds them again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

SOURCE = Path(__file__).parent / "source"
PROGRAMS = Path(__file__).parent / "programs"
NAME = "mount-watch"
PLATFORMS = ("linux/amd64", "linux/arm64")


def program(processor: Literal["amd64", "arm64"]) -> bytes:
    """The program for a processor's Linux."""
    return path(f"linux/{processor}").read_bytes()


def path(platform: str) -> Path:
    """Where the program for a platform is kept."""
    return PROGRAMS / platform.replace("/", "-") / NAME


def sources() -> list[Path]:
    """Its sources and their headers."""
    return sorted(each for each in SOURCE.iterdir() if each.suffix in (".c", ".h"))
