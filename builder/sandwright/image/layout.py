"""Writes OCI image layouts: image-spec 1.1, image-layout.md.

A blob is hashed while it is written into a staging directory, and gets its name when it is complete and on
disk. A layout changes in one step: its `index.json`, or the whole new directory, is renamed. At any moment
the layout is complete, either the old one or the new one. Blobs that the new index does not name are then
removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandwright.errors import BuildError, HostError
from sandwright.image.scratch import discard
from sandwright.locking import exclusive
from sandwright.outputs import disk_errors
from sandwright.progress import SILENT, Progress
from sandwright.rootfs.descriptor import Descriptor, canonical
from sandwright.streams import write_all

STAGING = ".building-"
LAYOUT_FILE = b'{"imageLayoutVersion":"1.0.0"}'

_LOCK_WAIT = 1800.0


@dataclass(frozen=True)
class Blob:
    """A blob that was written: its digest (`sha256:…`) and its size in bytes."""

    digest: str
    size: int

    @classmethod
    def of(cls, descriptor: Descriptor) -> Blob:
        """The blob that a descriptor points to."""
        return cls(descriptor.digest, descriptor.size)

    @property
    def name(self) -> str:
        """The file's name in `blobs/sha256`."""
        return self.digest.removeprefix("sha256:")

    def descriptor(self, media_type: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON values
        """The blob's descriptor for documents that point to it."""
        return Descriptor(media_type, self.digest, self.size).document(**more)


class StagingArea:
    """A directory beside the layouts, for new blobs. Created by `staging`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def writing(self) -> Iterator[BlobWriter]:
        """A blob to write for the length of a `with`, which sets its `blob` and names its file."""
        part = self.path / f"{uuid.uuid4().hex}.part"
        with _create_blob(part) as fd:
            writer = BlobWriter(fd, part)
            yield writer
            writer.close()
        with disk_errors(self.path):
            part.rename(self.path / writer.blob.name)

    def add(self, data: bytes) -> Blob:
        """Write a small blob."""
        with self.writing() as writer:
            writer.write(data)
        return writer.blob

    def adopt(self, blob: Blob, source: Path) -> None:
        """Add a blob of a layout by a hard link, or by a copy on another file system."""
        target = self.path / blob.name
        if target.exists():
            return
        with disk_errors(self.path):
            try:
                os.link(source, target)
            except OSError:
                with self.writing() as writer, source.open("rb") as original:
                    while data := original.read(1 << 20):
                        writer.write(data)
                if writer.blob != blob:
                    raise BuildError(f"{source}: its content does not match its digest") from None

    def publish(self, index: Mapping[str, Any], blobs: Collection[Blob], layout: Path) -> None:
        """Make `layout` hold exactly `blobs`, all of which are staged, under `index`. Atomic.

        Raise BuildError when something that is no image layout is in the way.
        """
        with disk_errors(layout):
            if _is_free(layout):
                self._create(index, blobs, layout)
            else:
                self._update(index, blobs, layout)

    def _create(self, index: Mapping[str, Any], blobs: Collection[Blob], layout: Path) -> None:
        fresh = self.path / f"layout-{uuid.uuid4().hex}"
        store = fresh / "blobs" / "sha256"
        store.mkdir(parents=True)
        for blob in blobs:
            os.link(self.path / blob.name, store / blob.name)
        _write_file(fresh / "oci-layout", LAYOUT_FILE)
        _write_file(fresh / "index.json", canonical(index))
        for directory in (store, store.parent, fresh):
            _sync(directory)
        fresh.rename(layout)
        _sync(layout.parent)

    def _update(self, index: Mapping[str, Any], blobs: Collection[Blob], layout: Path) -> None:
        store = layout / "blobs" / "sha256"
        for directory in (layout, store.parent, store):
            if not stat.S_ISDIR(directory.lstat().st_mode):
                raise BuildError(f"{directory} is in the way: it is not a directory of an image layout")
        for blob in blobs:
            link = self.path / uuid.uuid4().hex
            os.link(self.path / blob.name, link)
            link.replace(store / blob.name)  # also replaces a damaged file
            link.unlink(missing_ok=True)  # rename(2) leaves both names when they are one file
        _sync(store)
        for name, data in (("oci-layout", LAYOUT_FILE), ("index.json", canonical(index))):
            fresh = self.path / f"{name}-{uuid.uuid4().hex}"
            _write_file(fresh, data)
            fresh.replace(layout / name)
        _sync(layout)
        names = {blob.name for blob in blobs}
        for path in store.iterdir():
            if path.name not in names:
                path.unlink()


class BlobWriter:
    """Hashes and writes the bytes of a blob. `blob` is set at the end."""

    blob: Blob

    def __init__(self, fd: int, path: Path) -> None:
        self.size = 0
        self._hash = hashlib.sha256()
        self._fd = fd
        self._path = path

    def write(self, data: bytes) -> None:
        """Take all of `data`. Raise HostError when it can't be written."""
        self._hash.update(data)
        self.size += len(data)
        with disk_errors(self._path):
            write_all(self._fd, data)

    def close(self) -> None:
        """Sync the blob to disk, and compute its digest."""
        with disk_errors(self._path):
            os.fsync(self._fd)
        self.blob = Blob(f"sha256:{self._hash.hexdigest()}", self.size)


@contextlib.contextmanager
def staging(directory: Path, *, progress: Progress = SILENT) -> Iterator[StagingArea]:
    """A staging area in `directory`, removed at the end. One build at a time may write there.

    Wait up to half an hour for another build. Remove the leftovers of killed builds.
    """
    with disk_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        with _alone_in(directory, progress):
            for stale in directory.glob(STAGING + "*"):
                discard(stale)
            area = directory / f"{STAGING}{uuid.uuid4().hex}"
            area.mkdir(mode=0o700)
            try:
                yield StagingArea(area)
            finally:
                discard(area)


def is_littered(directory: Path) -> bool:
    """Whether a killed build left something beside the layouts, or another build is running."""
    return any(directory.glob(STAGING + "*"))


@contextlib.contextmanager
def _alone_in(directory: Path, progress: Progress) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if not stack.enter_context(exclusive(directory, within=0)):
            progress.note(f"waiting for another build that writes to {directory}")
            if not stack.enter_context(exclusive(directory, within=_LOCK_WAIT)):
                raise HostError(f"another build has held {directory} for {_LOCK_WAIT:g} s")
        yield


def _is_free(layout: Path) -> bool:
    """Whether no layout exists yet. Raise BuildError when something else is in the way."""
    if layout.is_symlink() or (layout.exists() and not layout.is_dir()):
        raise BuildError(f"{layout} is in the way: it is not a directory")
    if not layout.exists():
        return True
    names = {path.name for path in layout.iterdir()}
    if names and not {"oci-layout", "blobs"} <= names:
        raise BuildError(f"{layout} is in the way: it is not an image layout; remove it if it isn't needed")
    return not names


@contextlib.contextmanager
def _create_blob(path: Path) -> Iterator[int]:
    with disk_errors(path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        yield fd
    finally:
        os.close(fd)


def _write_file(path: Path, data: bytes) -> None:
    with _create_blob(path) as fd:
        writer = BlobWriter(fd, path)
        writer.write(data)
        writer.close()


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
