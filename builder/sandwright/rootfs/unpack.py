"""Unpacks the layers of an image into a root file system.

Layers are applied in order, the lowest first, each in two steps: what it takes away from those below, then
what it brings (`merge.py`). That writes a file again that an upper layer replaces, which images hardly do,
and needs to remember nothing of what was written: memory does not grow with the image. Going through the
layers from the top would write every file once, but an upper layer's path may lead through a lower layer's
link, so it would have to read all layers twice, the first one included.

Each layer is a pipeline of three threads: one reads, hashes and decompresses, one hashes what came out, and
the caller's takes the archive apart and writes. Nothing is visible before every digest is proved.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sandwright.errors import ArchiveRefused, HostError, SandwrightError
from sandwright.progress import SILENT, Progress, Step
from sandwright.rootfs import merge
from sandwright.rootfs.ahead import Ahead
from sandwright.rootfs.codec import decompressed
from sandwright.rootfs.descriptor import LAYER_TYPES, check_digest
from sandwright.rootfs.digest import Verified
from sandwright.rootfs.entry import WHITEOUT, Refusal, show
from sandwright.rootfs.limits import DEFAULT, Limits
from sandwright.rootfs.notes import Notes
from sandwright.rootfs.place import Owners, Placer
from sandwright.rootfs.reader import Readable, Reader
from sandwright.rootfs.staging import staged
from sandwright.rootfs.tree import Tree

_ENDINGS = {"gzip": "gzip", "zstd": "zstd", "plain": "tar", "xz": "xz"}


@dataclass(frozen=True)
class Layer:
    """A layer as its descriptor and the image's configuration promise it.

    `digest` and `size` are those of the blob, `diff_id` that of the archive without compression. `open`
    gives the blob from its start; it is called once or more.
    """

    digest: str
    size: int
    media_type: str
    diff_id: str
    open: Callable[[], BinaryIO]


@dataclass(frozen=True)
class Report:
    """What was unpacked, and what is to be known about it.

    `entries` and `bytes` count the archives' members and length. `contained` is what was read differently
    from how it was written, or had no effect. `missing` is what the image has and the root file system has
    not: devices and owners that could not be made, xattrs that were masked or not taken.
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
    layers: Sequence[Layer],
    destination: Path,
    *,
    limits: Limits = DEFAULT,
    owners: Owners | None = None,
    progress: Progress = SILENT,
) -> Report:
    """Unpack `layers`, the lowest first, into a new directory that appears complete or not at all.

    `limits` hold for all layers together. `owners` "root" gives files to whom the image says, which takes
    root's rights; "rootless" gives all to the caller; absent, it follows from who the caller is. The
    directory above `destination` is made with mode 0700 if it is missing, and should have that mode: an
    image may hold setuid programs and devices (CVE-2021-41103).

    Raise IntegrityError for bytes that are not the promised ones, ArchiveRefused for a layer that holds
    what we don't unpack, HostError for what this machine can't do, such as a full disk. All name the layer
    and the entry; nothing is left behind.
    """
    owners = owners or ("root" if os.geteuid() == 0 else "rootless")
    for layer in layers:
        _check(layer)
    with _explained(str(destination)), staged(destination) as stage:
        tree = Tree(stage.fd, limits=limits)
        try:
            unpacking = _Unpacking(tree, owners, limits)
            for index, layer in enumerate(layers):
                with progress.step(f"unpack {layer.digest[:19]}", layer.size) as step:
                    unpacking.apply(layer, step, lowest=index == 0)
            tree.close()
        finally:
            tree.abandon()
        stage.publish()
    return Report(
        owners,
        len(layers),
        unpacking.entries,
        unpacking.bytes,
        unpacking.contained,
        unpacking.missing,
    )


class _Unpacking:
    """The layers of one image on their way into one tree."""

    def __init__(self, tree: Tree, owners: Owners, limits: Limits) -> None:
        self.entries = 0
        self.bytes = 0
        self.contained = Notes()
        self.missing = Notes()
        self._tree = tree
        self._limits = limits
        self._placer = Placer(tree, owners=owners, missing=self.missing)

    def apply(self, layer: Layer, step: Step, *, lowest: bool) -> None:
        """Take away what the layer takes away, then put down what it brings."""
        name = f"layer {layer.digest}"
        if not lowest:
            removals = self._removals(layer, name)
            self._take_away(removals, name)
        with self._opened(layer, name, step) as archive, contextlib.ExitStack() as threads:
            inflated = threads.enter_context(Ahead(archive))
            proved = Verified(inflated, layer.diff_id, name=f"{name}, decompressed")
            reader = self._reader(threads.enter_context(Ahead(proved)), name, self.contained)
            self._put(reader, name, lowest=lowest)
        self.entries += reader.entries
        self.bytes += reader.bytes

    def _take_away(self, removals: merge.Removals, name: str) -> None:
        try:
            merge.take_away(removals, self._tree, self.contained)
        except Refusal as refusal:
            raise ArchiveRefused(f"{name}: of what it takes away: {refusal}") from None
        except OSError as error:
            raise _translated(error, name) from error

    def _put(self, reader: Reader, name: str, *, lowest: bool) -> None:
        put, chunks = self._placer.put, reader.chunks
        for entry in reader:
            path = entry.path
            try:
                if WHITEOUT in path and merge.whiteout(path) is not None:
                    if lowest:
                        self.contained.add(merge.NOTHING_THERE, path)
                    continue
                put(entry, chunks())
            except Refusal as refusal:
                reader.refuse(path, str(refusal))
            except OSError as error:
                raise _translated(error, f"{name}: {show(path)}") from error

    def _removals(self, layer: Layer, name: str) -> merge.Removals:
        with self._opened(layer, name) as archive:
            if not merge.mentions_whiteouts(archive):
                return merge.Removals()
        with self._opened(layer, name) as archive:
            return merge.collect(self._reader(archive, name, Notes()))

    def _reader(self, stream: Readable, name: str, notes: Notes) -> Reader:
        left = dataclasses.replace(
            self._limits, bytes=self._limits.bytes - self.bytes, entries=self._limits.entries - self.entries
        )
        return Reader(stream, limits=left, name=name, notes=notes)

    @contextlib.contextmanager
    def _opened(self, layer: Layer, name: str, step: Step | None = None) -> Iterator[Readable]:
        """The layer's archive, its blob proved by the time that it is read to its end."""
        with layer.open() as blob:
            proved = Verified(_Told(blob, step) if step else blob, layer.digest, size=layer.size, name=name)
            archive = decompressed(proved, name=name, limits=self._limits)
            if not layer.media_type.endswith(_ENDINGS[archive.codec]):
                self.contained.add(f"{layer.media_type} is really {archive.codec}", b"")
            yield archive


class _Told:
    """A stream whose reader is watched."""

    def __init__(self, stream: Readable, step: Step) -> None:
        self._stream = stream
        self._step = step

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self._step.advance(len(data))
        return data


def _check(layer: Layer) -> None:
    check_digest(layer.digest, "layer")
    check_digest(layer.diff_id, f"layer {layer.digest}: diff_id")
    if layer.media_type not in LAYER_TYPES:
        raise ArchiveRefused(f"layer {layer.digest}: is {layer.media_type!r}, which is no layer that we know")


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
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
