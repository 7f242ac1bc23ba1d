"""Reads /etc/ld.so.conf of a root file system, which ldconfig(8) looks at and the loader does not."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.rootfs.minimal import patterns
from sandwright.rootfs.securejoin import Root

CONF = b"/etc/ld.so.conf"
_LARGEST = 1 << 20
_DEEPEST = 8


def directories(root: Root, path: bytes = CONF, *, depth: int = 0) -> Iterator[bytes]:
    """The directories it names, in order, those of included files in their place."""
    resolved = root.locate(path)
    if depth > _DEEPEST or not resolved.is_file:
        return
    for line in root.read(resolved.path, limit=_LARGEST).split(b"\n"):
        words = line.partition(b"#")[0].split()
        if words[:1] == [b"include"]:
            for pattern in words[1:]:
                whole = pattern if pattern.startswith(b"/") else path.rpartition(b"/")[0] + b"/" + pattern
                for found in sorted(patterns.find(root, whole)):
                    yield from directories(root, found, depth=depth + 1)
        elif words and words[0].startswith(b"/"):
            yield words[0].partition(b"=")[0].rstrip(b"/")
