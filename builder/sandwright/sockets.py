"""Names of Unix sockets: an address has 107 bytes (unix(7)), and a path may have more."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def socket_name(path: str) -> Iterator[str]:
    """A name of a Unix socket's path that fits, however long the path is. Raise OSError."""
    folder, name = os.path.split(path)
    directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{name}"
    finally:
        os.close(directory)
