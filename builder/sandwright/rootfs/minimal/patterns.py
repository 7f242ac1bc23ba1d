"""Path patterns: `*` within a component, `?` for one byte of one, `**` for any number of components."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from sandwright.rootfs.securejoin import Root


@functools.cache
def compiled(pattern: bytes) -> re.Pattern[bytes]:
    """The regular expression of a pattern, for the whole of a path."""
    wild = {b"**": b".*", b"*": b"[^/]*", b"?": b"[^/]"}
    pieces = re.split(rb"(\*\*|\*|\?)", pattern)
    return re.compile(b"".join(wild.get(piece, re.escape(piece)) for piece in pieces), re.DOTALL)


def matches(pattern: bytes, path: bytes) -> bool:
    """Whether `path` is one of those that `pattern` means."""
    return compiled(pattern).fullmatch(path) is not None


def find(root: Root, pattern: bytes) -> Iterator[bytes]:
    """Find the files and links of a pattern or path in a root; a directory counts with its content.

    Links in the part before the first wildcard are followed, so that `/lib/*` works where /lib is a link; the
    paths given are free of them. After it, links are given and not followed.
    """
    parts = pattern.strip(b"/").split(b"/")
    fixed = next((n for n, part in enumerate(parts) if re.search(rb"[*?]", part)), len(parts))
    start = root.locate(b"/".join(parts[:fixed]), follow=fixed < len(parts))
    if start.status is None:
        return
    if fixed == len(parts):
        yield start.path
        if start.is_link:
            start = root.locate(start.path)
        if start.is_directory:
            yield from root.tree(start.path)
    elif start.is_directory:
        yield from _below(root, start.path, b"/".join(parts[fixed:]))


def _below(root: Root, folder: bytes, pattern: bytes) -> Iterator[bytes]:
    """Files whose path below `folder` matches, or that lie in a directory whose path does."""
    prefix = folder.rstrip(b"/") + b"/"
    depth = None if b"**" in pattern else pattern.count(b"/") + 1
    for path in root.tree(folder):
        parts = path[len(prefix) :].split(b"/")
        above = b"/".join(parts[:depth])
        if matches(pattern, b"/".join(parts)) or (depth and len(parts) > depth and matches(pattern, above)):
            yield path
