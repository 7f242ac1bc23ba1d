"""Tar archives as streams: one audited reader and one deterministic writer.

For layers, packages and build contexts alike. `Entry` and `Kind` say what a member is (`entry.py`);
`Reader` takes archives apart (`reader.py`, with `member.py` and `header.py` for the bytes); `Writer` makes
them (`writer.py`).
"""

from __future__ import annotations

from sandwright.rootfs.tar.entry import NO_XATTRS, Entry, Kind, normalise, show
from sandwright.rootfs.tar.limits import Limits
from sandwright.rootfs.tar.notes import Notes
from sandwright.rootfs.tar.reader import Readable, Reader
from sandwright.rootfs.tar.writer import Writable, Writer

__all__ = [
    "NO_XATTRS",
    "Entry",
    "Kind",
    "Limits",
    "Notes",
    "Readable",
    "Reader",
    "Writable",
    "Writer",
    "normalise",
    "show",
]
