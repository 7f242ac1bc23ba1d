"""Removes directories that builds worked in, and never what is mounted in them.

Where foreign code ran as root, something may still be mounted: mmdebstrap binds the machine's own /dev into
the system that it makes, and one that is killed leaves it there. Removing the tree would then remove files of
the machine (CVE-2024-23652 is the same mistake elsewhere). A bind mount need not even be another file system,
so the table of mounts is asked, not the device numbers.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sandwright.errors import HostError

MOUNTS = Path("/proc/self/mountinfo")


def mounted_below(directory: Path) -> list[Path]:
    """What is mounted on a directory or in it, as this process sees it; nothing where no table says so."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return []
    real = directory.resolve()
    points = (Path(_plain(line.split(" ")[4])) for line in lines)
    return [point for point in points if point == real or real in point.parents]


def discard(directory: Path) -> None:
    """Remove a directory and all that is in it.

    Raise HostError, and remove nothing, when something is mounted in it; OSError when it can't be removed.
    """
    mounted = mounted_below(directory)
    if mounted:
        what = f"something is mounted on {mounted[0]}; unmount it and build again"
        raise HostError(f"{directory} can't be removed: {what}")
    shutil.rmtree(directory)


@contextlib.contextmanager
def scratch_directory(parent: Path | None) -> Iterator[Path]:
    """A new directory in `parent`, absent in the system's place for such, for the length of a `with`.

    What can't be removed at the end stays, without a word: other users may own it.
    """
    place = Path(tempfile.mkdtemp(prefix="sandwright-", dir=parent))
    try:
        yield place
    finally:
        with contextlib.suppress(OSError):
            discard(place)


def _plain(field: str) -> str:
    """A field of the table without its escapes: white space and backslashes are in octal there (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
