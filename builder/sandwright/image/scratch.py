"""Removes the directories of builds, and never the content of a mount in them.

After code ran as root, something may still be mounted: mmdebstrap binds the host's /dev into the system that
it makes, and a killed mmdebstrap leaves it there. Removing the tree would remove files of the host.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sandwright import user_dirs
from sandwright.mountinfo import refuse_mounts


def discard(directory: Path) -> None:
    """Remove a directory with all its entries.

    Raise HostError, and remove nothing, when something is mounted in it; OSError when it can't be removed.
    """
    refuse_mounts(directory)
    shutil.rmtree(directory)


@contextlib.contextmanager
def scratch_directory(parent: Path | None) -> Iterator[Path]:
    """A new directory in `parent`, or in `user_dirs.visible_scratch`, for the length of a `with`.

    A directory that can't be removed stays, without an error: other users may own it.
    """
    made = Path(tempfile.mkdtemp(prefix="sandwright-", dir=parent or user_dirs.visible_scratch()))
    try:
        yield made
    finally:
        with contextlib.suppress(OSError):
            discard(made)
