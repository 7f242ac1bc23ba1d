"""Removes the directories of builds, and never the content of a mount in them.

After code ran as root, something may still be mounted: mmdebstrap binds the host's /dev into the system that
it makes, and a killed mmdebstrap leaves it there. Removing the tree would remove files of the host
(CVE-2024-23652 is the same mistake elsewhere). A bind mount may be on the same file system, so this reads the
table of mounts rather than device numbers.
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
    """The mount points at or below a directory; none where /proc has no table of mounts."""
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
    """A new directory in `parent`, or in the system's temporary directory, for the length of a `with`.

    A directory that can't be removed stays, without an error: other users may own it.
    """
    place = Path(tempfile.mkdtemp(prefix="sandwright-", dir=parent))
    try:
        yield place
    finally:
        with contextlib.suppress(OSError):
            discard(place)


def _plain(field: str) -> str:
    """Decode a field of the table, where white space and backslashes are octal escapes (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
