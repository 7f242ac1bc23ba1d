"""Bounds the memory for an image's members, for any header and any packing."""

from __future__ import annotations

from sandwright.rootfs.tar.entry import EntryRefused, TarEntry
from sandwright.rootfs.tar.limits import DEFAULT, NAMED, ArchiveLimits


class MemoryBudget:
    """Counts the bytes that are kept of the members of all layers of an image: `limits.held` at most."""

    def __init__(self, limits: ArchiveLimits | None = None) -> None:
        """Without `limits` those of any archive."""
        self._most = self._left = (limits or DEFAULT).held

    def add(self, entry: TarEntry, more: int = 0) -> None:
        """Keep a member, with `more` bytes of its content. Raise EntryRefused when it is too much."""
        xattrs = sum(len(key) + len(value) for key, value in entry.xattrs.items())
        self.take(NAMED + len(entry.path) + len(entry.link) + xattrs + more)

    def take(self, size: int) -> None:
        """Reserve some bytes. Raise EntryRefused if the budget is exceeded."""
        self._left -= size
        if self._left < 0:
            raise EntryRefused(f"it and the members before it need more than {self._most} bytes of memory")
