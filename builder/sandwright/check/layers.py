"""Audits each layer by itself: a file that an upper layer hides is still in the image."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import IO

from sandwright.check.finding import ImageFinding
from sandwright.check.secrets import LARGEST, secret_file, secrets_in
from sandwright.errors import ArchiveRefused
from sandwright.image.layered import LayerEntries
from sandwright.release.contents import LARGEST_KEPT, EntryContent
from sandwright.rootfs.digest import VerifiedReader
from sandwright.rootfs.elf import MAGIC, Elf, Malformed, read_elf
from sandwright.rootfs.images.source import Image
from sandwright.rootfs.tar.entry import EntryKind, EntryRefused, TarEntry, show
from sandwright.rootfs.tar.limits import DEFAULT, NAMED, ArchiveLimits
from sandwright.rootfs.tar.memory_budget import MemoryBudget
from sandwright.rootfs.tar.prefetch import Prefetch
from sandwright.rootfs.tar.reader import TarReader
from sandwright.rootfs.unpacking.layers import ImageLayer
from sandwright.rootfs.unpacking.merge import whiteout

SET_ID = frozenset(
    {
        *(
            b"usr/bin/" + name
            for name in b"chage chfn chsh expiry gpasswd mount newgrp passwd su umount".split()
        ),
        *(b"usr/bin/" + name for name in b"ssh-agent wall write".split()),
        *(b"usr/sbin/unix_chkpwd", b"usr/lib/openssh/ssh-keysign", b"sbin/unix_chkpwd"),
        *(b"bin/" + name for name in b"bbsuid mount su umount".split()),
    }
)
"""Programs that distributions install with another's rights: of shadow, util-linux, PAM and OpenSSH in
Debian, of busybox-suid in Alpine. In a sandbox without new privileges they have none."""

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_CAPABILITY = b"security.capability"
_STICKY, _SET_ID, _OTHERS_WRITE = 0o1000, 0o6000, 0o002


@dataclass
class LayersRead:
    """The data that checks need of all layers: entries, and headers of ELF files by path in the layer."""

    entries: list[LayerEntries[EntryContent]] = field(default_factory=list)
    elves: dict[bytes, Elf] = field(default_factory=dict)


@dataclass
class _Below:
    """The members of the layers so far, and the rest of the limits for all layers."""

    paths: set[bytes] = field(default_factory=lambda: {b""})
    limits: ArchiveLimits = DEFAULT
    implied: int = 0
    held: MemoryBudget = field(default_factory=MemoryBudget)

    def knows(self, path: bytes) -> bool:
        return path in self.paths

    def add(self, path: bytes) -> None:
        """Remember a member and the directories above it. Raise ArchiveRefused when those are too many."""
        self.paths.add(path)
        while (path := path.rpartition(b"/")[0]) and path not in self.paths:
            self.paths.add(path)
            self.implied += len(path) + NAMED
        if self.implied > self.limits.names:
            raise ArchiveRefused(f"directories that no member speaks of have names of {self.implied} bytes")

    def read(self, reader: TarReader) -> None:
        """Subtract a layer's bytes and entries from the limits."""
        self.limits = replace(
            self.limits, bytes=self.limits.bytes - reader.bytes, entries=self.limits.entries - reader.entries
        )


def check_layers(
    image: Image, created_ns: int | None, layers_read: LayersRead, keep: Callable[[bytes], bool]
) -> Iterator[ImageFinding]:
    """All findings of rules `layer/…`, and of `secret/…` in layers. `layers_read` is filled on the way.

    `created_ns` is the image's time in nanoseconds since 1970, None where it says none. `keep` picks the
    files with wanted content, by their path in a layer. Raise the exceptions of reading: ArchiveRefused for a
    member that can't be in a layer, IntegrityError for other bytes than promised.
    """
    below = _Below()
    for number, layer in enumerate(image.layers, 1):
        layer.check()
        yield from _Look(number, layer, below, created_ns, layers_read, keep).findings()


@dataclass
class _Look:
    """One layer being read."""

    number: int
    layer: ImageLayer
    below: _Below
    created_ns: int | None
    layers_read: LayersRead
    keep: Callable[[bytes], bool]
    entries: LayerEntries[EntryContent] = field(default_factory=LayerEntries)
    seen: set[bytes] = field(default_factory=set)
    folded: dict[bytes, bytes] = field(default_factory=dict)
    newer: int = 0
    newest: TarEntry | None = None

    def findings(self) -> Iterator[ImageFinding]:
        name, limits = self.layer.name, self.below.limits
        with (
            self.layer.archive(limits, lambda _: None) as archive,
            Prefetch(VerifiedReader(archive, self.layer.diff_id, name=name)) as ahead,
            tempfile.TemporaryFile() as scratch,
        ):
            reader = TarReader(ahead, name=name, limits=limits, may_be_sparse=True)
            for entry in reader:
                hidden = yield from self._check_entry(entry, reader)
                content = yield from self._search_content(entry, reader, scratch)
                if hidden is None:
                    self.entries.entries.append((entry, ({}, content)))
                else:
                    self.entries.hide(entry.path, hidden)
        if self.newest is not None:
            more = f", and {self.newer - 1} more files too" if self.newer > 1 else ""
            yield self._finding("layer/time", self.newest, f"is newer than the image says that it is{more}")
        self.layers_read.entries.append(self.entries)
        self.below.read(reader)
        for path in sorted(self.seen):
            self.below.add(path)

    def _check_entry(self, entry: TarEntry, reader: TarReader) -> Generator[ImageFinding, None, bytes | None]:
        """The findings about an entry, but for its content. Give the path that it removes, if any."""
        self._count_member(entry, reader, len(entry.path))  # in two letter cases
        if entry.path in self.seen:
            yield self._finding(
                "layer/duplicate", entry, "is there twice; readers differ on which one counts"
            )
        self.seen.add(entry.path)
        try:
            hidden = whiteout(entry.path)
        except EntryRefused as refusal:
            reader.refuse(entry.path, str(refusal))
        if hidden is not None:
            gone = entry.path.rpartition(b"/")[0] if hidden == entry.path else hidden
            if not self.below.knows(gone):
                yield self._finding(
                    "layer/whiteout", entry, f"takes {show(gone)} away, which no layer below has"
                )
            return hidden
        yield from self._check_path(entry)
        yield from self._check_mode(entry)
        if entry.kind in (EntryKind.CHARACTER, EntryKind.BLOCK):
            major, minor = entry.device
            yield self._finding("layer/device", entry, f"is a {entry.kind.value}, {major}:{minor}")
        if entry.kind is EntryKind.SYMLINK and _climbs(entry):
            yield self._finding("layer/link-outside", entry, f"leads above the root, to {show(entry.link)}")
        if self.created_ns is not None and entry.mtime_ns > self.created_ns:
            self.newer += 1
            self.newest = max(self.newest or entry, entry, key=lambda each: each.mtime_ns)
        what = secret_file(entry.path)
        if what and (entry.kind is not EntryKind.DIRECTORY or entry.path.endswith(b".git")):
            yield self._finding("secret/file", entry, f"is where programs keep {what}")
        return None

    def _check_path(self, entry: TarEntry) -> Iterator[ImageFinding]:
        try:
            text = entry.path.decode()
        except UnicodeDecodeError:
            yield self._finding("layer/encoding", entry, "is not UTF-8")
            text = entry.path.decode("utf-8", "replace")
        if _CONTROL.search(text):
            yield self._finding("layer/name", entry, "has control characters in its name")
        folded = text.casefold().encode()
        other = self.folded.setdefault(folded, entry.path)
        if other != entry.path:
            yield self._finding("layer/case", entry, f"differs from {show(other)} in case alone")

    def _check_mode(self, entry: TarEntry) -> Iterator[ImageFinding]:
        """Findings on a mode: also that of a hard link, which Docker applies to the file itself."""
        if entry.kind is EntryKind.SYMLINK:
            return
        file = entry.kind in (EntryKind.FILE, EntryKind.HARDLINK)
        if file and entry.mode & _SET_ID and entry.path not in SET_ID:
            who = " and ".join(
                text
                for bit, text in ((0o4000, f"user {entry.uid}"), (0o2000, f"group {entry.gid}"))
                if entry.mode & bit
            )
            yield self._finding("layer/set-id", entry, f"runs as {who} for every caller")
        if _CAPABILITY in entry.xattrs:
            yield self._finding("layer/capability", entry, "has capabilities for every caller")
        sticky = entry.kind is EntryKind.DIRECTORY and entry.mode & _STICKY
        if (file or entry.kind is EntryKind.DIRECTORY) and entry.mode & _OTHERS_WRITE and not sticky:
            yield self._finding(
                "layer/world-writable", entry, f"can be written by everybody (mode {entry.mode:04o})"
            )

    def _search_content(
        self, entry: TarEntry, reader: TarReader, scratch: IO[bytes]
    ) -> Generator[ImageFinding, None, bytes | None]:
        """Search the beginning for secrets, and keep an ELF file's header data. Give wanted content."""
        if entry.kind is not EntryKind.FILE:
            return None
        retained = self.keep(entry.path)
        if retained:
            self._count_content(entry, reader)
        chunks = reader.chunks()
        head = b""
        for chunk in chunks:
            head += chunk
            if len(head) >= LARGEST:
                break
        for what in secrets_in(head[:LARGEST]):
            yield self._finding("secret/content", entry, f"has {what} in it")
        if retained:
            head += b"".join(chunks)
        if head.startswith(MAGIC):
            self._read_program_headers(entry, reader, itertools.chain((head,), chunks), scratch)
        return head if retained else None

    def _read_program_headers(
        self, entry: TarEntry, reader: TarReader, chunks: Iterator[bytes], scratch: IO[bytes]
    ) -> None:
        """Keep the data of an ELF file's headers."""
        scratch.seek(0)
        scratch.truncate()
        for chunk in chunks:
            scratch.write(chunk)
        scratch.flush()
        try:
            elf = read_elf(scratch.fileno())
        except Malformed:
            return
        if elf is not None:
            self._count_member(entry, reader, elf.weight)
            self.layers_read.elves[entry.path] = elf

    def _count_content(self, entry: TarEntry, reader: TarReader) -> None:
        """Count the memory for content. Raise ArchiveRefused when it is too much."""
        if entry.size > LARGEST_KEPT:
            reader.refuse(entry.path, f"has more than the {LARGEST_KEPT} bytes that are read of it")
        self._count_member(entry, reader, entry.size)

    def _count_member(self, entry: TarEntry, reader: TarReader, more: int) -> None:
        """Count the memory for a member. Raise ArchiveRefused when it is too much."""
        try:
            self.below.held.add(entry, more)
        except EntryRefused as refusal:
            reader.refuse(entry.path, str(refusal))

    def _finding(self, rule: str, entry: TarEntry, message: str) -> ImageFinding:
        return ImageFinding(rule, show(entry.path).strip("'"), f"in layer {self.number}: {message}")


def _climbs(entry: TarEntry) -> bool:
    """Whether a link, read by itself, has more `..` than there are directories above it."""
    depth = 0 if entry.link.startswith(b"/") else entry.path.count(b"/")
    for part in entry.link.split(b"/"):
        if part == b"..":
            depth -= 1
        elif part not in (b"", b"."):
            depth += 1
        if depth < 0:
            return True
    return False
