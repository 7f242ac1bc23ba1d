"""Unpacks the layers of an image into a root file system.

Layers are applied in order, the lowest first, each in two steps: whiteouts, then entries (`merge.py`). A file
that an upper layer replaces is therefore written twice, which hardly happens in images. In return the written
entries need not be remembered: memory does not grow with the image. Unpacking from the top would write every
file once. But the path of an upper layer may lead through a link of a lower layer, so every layer would have
to be read twice.

Three threads work on each layer: one reads, hashes and decompresses the blob, one hashes the archive, and the
caller's parses the archive and writes. A fourth thread collects the whiteouts of the next layers. The root
file system appears only after every digest is verified.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import ArchiveRefused, HostError, SandwrightError
from sandwright.progress import SILENT, Progress, ProgressStep
from sandwright.rootfs.digest import VerifiedReader
from sandwright.rootfs.tar.archive_warnings import Notes
from sandwright.rootfs.tar.entry import WHITEOUT, EntryRefused, show
from sandwright.rootfs.tar.limits import DEFAULT, ArchiveLimits
from sandwright.rootfs.tar.prefetch import Prefetch
from sandwright.rootfs.tar.reader import Readable, TarReader
from sandwright.rootfs.unpacking import merge
from sandwright.rootfs.unpacking.layers import ImageLayer, WhiteoutPrefetch
from sandwright.rootfs.unpacking.place import Owners, TarExtractor, default_owners
from sandwright.rootfs.unpacking.staging import staged
from sandwright.rootfs.unpacking.tree import RootfsTree

__all__ = ["ArchiveLimits", "ImageLayer", "Notes", "Owners", "UnpackReport", "unpack"]

_ENDINGS = {"gzip": "gzip", "zstd": "zstd", "plain": "tar", "xz": "xz"}


@dataclass(frozen=True)
class UnpackReport:
    """The unpacked tree, and remarks about it.

    `entries` and `bytes` count the archives' members and length. `contained` lists entries that were changed
    or had no effect. `missing` lists the parts of the image that the root file system does not have: devices
    and owners that could not be made, xattrs that were masked or not taken.
    """

    owners: Owners
    layers: int
    entries: int
    bytes: int
    contained: Notes
    missing: Notes

    def as_dict(self) -> dict[str, object]:
        """The report as JSON can hold it."""
        return {
            "owners": self.owners,
            "layers": self.layers,
            "entries": self.entries,
            "bytes": self.bytes,
            "contained": self.contained.as_dict(),
            "missing": self.missing.as_dict(),
        }


def unpack(
    layers: Sequence[ImageLayer],
    destination: Path,
    *,
    limits: ArchiveLimits = DEFAULT,
    owners: Owners | None = None,
    progress: Progress = SILENT,
) -> UnpackReport:
    """Unpack `layers`, the lowest first, into a new directory that appears complete or not at all.

    `limits` hold for all layers together. `owners` "root" sets the owners of the image, which requires root's
    rights; "rootless" gives all files to the caller; absent, it is "root" for root. The directory above
    `destination` is made with mode 0700 if it is missing, and should have that mode: an image may hold setuid
    programs and devices (CVE-2021-41103). It is locked (flock) for a moment.

    Raise IntegrityError for bytes that are not the promised ones, ArchiveRefused for a layer with an
    unsupported entry, HostError for a failure of this machine, such as a full disk. All name the layer and
    the entry; no file remains. The next call for the same directory removes the remains of a killed process.
    """
    owners = owners or default_owners()
    for layer in layers:
        layer.check()
    with (
        _explain_errors_of(str(destination)),
        staged(destination) as stage,
        WhiteoutPrefetch(layers, limits) as prefetch,
    ):
        tree = RootfsTree(stage.fd, limits=limits)
        try:
            unpacking = _Unpacking(tree, owners, limits)
            for index, layer in enumerate(layers):
                if index:
                    unpacking.apply_whiteouts(layer, prefetch.next())
                with progress.step(f"unpack {layer.digest[:19]}", layer.size) as step:
                    unpacking.extract(layer, step, lowest=not index)
            tree.close()
        finally:
            tree.abandon()
        stage.publish()
    return unpacking.report(len(layers))


class _Unpacking:
    """The layers of one image on their way into one tree."""

    def __init__(self, tree: RootfsTree, owners: Owners, limits: ArchiveLimits) -> None:
        self._tree = tree
        self._owners: Owners = owners
        self._left = limits
        self._entries = 0
        self._bytes = 0
        self._contained = Notes()
        self._missing = Notes()
        self._placer = TarExtractor(tree, owners=owners, missing=self._missing)

    def apply_whiteouts(self, layer: ImageLayer, removals: merge.Whiteouts) -> None:
        """Apply the whiteouts of a layer."""
        try:
            merge.apply_whiteouts(removals, self._tree, self._contained)
        except EntryRefused as refusal:
            raise ArchiveRefused(f"{layer.name}: of a path that it removes: {refusal}") from None
        except OSError as error:
            raise _translated(error, layer.name) from error

    def extract(self, layer: ImageLayer, step: ProgressStep, *, lowest: bool) -> None:
        """Extract the entries of a layer."""
        with layer.archive(self._left, step.advance) as archive:
            if not layer.media_type.endswith(_ENDINGS[archive.codec]):
                self._contained.add(f"{layer.media_type} is really {archive.codec}", b"")
            with self._proved(archive, layer) as stream:
                reader = TarReader(
                    stream, limits=self._left, name=layer.name, notes=self._contained, may_be_sparse=True
                )
                self._put_layer(reader, layer.name, lowest=lowest)
        self._entries += reader.entries
        self._bytes += reader.bytes
        self._left = dataclasses.replace(
            self._left, bytes=self._left.bytes - reader.bytes, entries=self._left.entries - reader.entries
        )

    def report(self, layers: int) -> UnpackReport:
        """The report on the unpacking."""
        return UnpackReport(self._owners, layers, self._entries, self._bytes, self._contained, self._missing)

    @contextlib.contextmanager
    def _proved(self, archive: Readable, layer: ImageLayer) -> Iterator[Readable]:
        """The archive, decompressed in one thread and hashed in another."""
        with Prefetch(archive) as inflated:
            proved = VerifiedReader(inflated, layer.diff_id, name=f"{layer.name}, decompressed")
            with Prefetch(proved) as hashed:
                yield hashed

    def _put_layer(self, reader: TarReader, name: str, *, lowest: bool) -> None:
        put, chunks = self._placer.put, reader.chunks
        for entry in reader:
            path = entry.path
            try:
                if WHITEOUT in path and merge.whiteout(path) is not None:
                    if lowest:
                        self._contained.add(merge.NOTHING_THERE, path)
                    continue
                put(entry, chunks())
            except EntryRefused as refusal:
                reader.refuse(path, str(refusal))
            except OSError as error:
                raise _translated(error, f"{name}: {show(path)}") from error


@contextlib.contextmanager
def _explain_errors_of(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _translated(error, what) from error


def _translated(error: OSError, what: str) -> SandwrightError:
    """An error of the operating system in our words. A name that is too long is the archive's fault."""
    if error.errno == errno.ENAMETOOLONG:
        return ArchiveRefused(f"{what}: its name, or that of a link it leads through, is too long")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return HostError(f"{what}: the disk is full")
    return HostError(f"{what}: {error.strerror or error}")
