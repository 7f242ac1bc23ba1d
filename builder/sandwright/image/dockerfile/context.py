"""The context of a build: the Dockerfile and every file that it copies, as a value, a directory or a stream.

Names and modes are ours and times are the image's, so that the same image has the same context.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import BuildError
from sandwright.outputs import disk_errors, output_folder, output_stream, write_output
from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from sandwright.rootfs.tar.writer import TarWriter, Writable

DOCKERFILE = "Dockerfile"
_MODE = 0o644
_CHUNK = 1 << 20


@dataclass(frozen=True)
class DockerfileContext:
    """The input of a build. `files` has each path in the context with bytes or a file of this host."""

    files: Mapping[str, bytes | Path]
    epoch: int

    @property
    def dockerfile(self) -> str:
        """The text of the Dockerfile."""
        text = self.files[DOCKERFILE]
        assert isinstance(text, bytes)
        return text.decode()

    def write_directory(self, directory: Path) -> None:
        """Make `directory`, which must not exist or be empty, the context. Packages are linked if possible.

        Raise BuildError when something is there, HostError when it can't be written.
        """
        with disk_errors(directory):
            with output_folder(f"{directory}/{DOCKERFILE}") as (folder, _):
                empty = not os.listdir(folder)  # noqa: PTH208 - a descriptor
            if not empty:
                raise BuildError(f"{directory} is not empty: a context needs an empty directory")
            for name, content in sorted(self.files.items()):
                _write_with_time(content, f"{directory}/{name}", self.epoch)

    def write_archive(self, sink: Writable) -> None:
        """Write it as a tar archive, as an engine takes it from a stream."""
        archive = TarWriter(sink)
        time = self.epoch * 10**9
        made: set[str] = set()
        for name, content in sorted(self.files.items()):
            for parent in reversed(Path(name).parents[:-1]):
                if str(parent) not in made:
                    made.add(str(parent))
                    archive.add(TarEntry(os.fsencode(parent), EntryKind.DIRECTORY, 0o755, mtime_ns=time))
            size = len(content) if isinstance(content, bytes) else content.stat().st_size
            entry = TarEntry(name.encode(), EntryKind.FILE, _MODE, size=size, mtime_ns=time)
            archive.add(entry, _chunks(content))
        archive.close()


def _write_with_time(content: bytes | Path, target: str, epoch: int) -> None:
    if isinstance(content, bytes):
        write_output(target, content, mode=_MODE)
        with output_folder(target) as (folder, name):
            os.utime(name, (epoch, epoch), dir_fd=folder, follow_symlinks=False)
        return
    with output_folder(target) as (folder, name):
        try:
            os.link(content, name, dst_dir_fd=folder)
        except OSError:  # another file system
            with output_stream(target) as copied, content.open("rb") as file:
                shutil.copyfileobj(file, copied)


def _chunks(content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        if content:
            yield content
        return
    with content.open("rb") as file:
        while data := file.read(_CHUNK):
            yield data
