"""Creates the mount points and working directories in a newly unpacked root file system.

The root is shared by every bundle of its image and read-only, so nothing may be created in it later. An
image may have put links, devices or files where runtimes mount (CVE-2019-19921, CVE-2021-30465,
CVE-2025-31133, CVE-2026-41579): they are replaced here, or refused, and each is reported. All work is
done below open directories of the root; the outcome depends on the image alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from sandwright.errors import ArchiveRefused, BuildError
from sandwright.render.baseline import Baseline, BaselineMount, Point
from sandwright.rootfs.securejoin import ResolvedPath, Root
from sandwright.rootfs.tar.entry import show

LARGEST_COPY = 8 << 20
_VOLUME = ("nosuid", "nodev", "size=1048576k")
_OWNER = re.compile(r"(?:mode=[0-7]+|[ug]id=[0-9]+)")
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, order=True)
class RootfsChange:
    """A change at one path.

    `created` where nothing was, `replaced` where something else stood, `contained` where the image's links
    lead elsewhere inside the root, `hidden` where a volume lies over files.
    """

    path: str
    action: Literal["created", "replaced", "contained", "hidden"]
    detail: str = ""


def is_volume(mount: BaselineMount) -> bool:
    """Whether it is a tmpfs as `prepare` gives it, and shows no file of the host."""
    stated, owner = mount.options[: len(_VOLUME)], mount.options[len(_VOLUME) :]
    plain = all(isinstance(each, str) and _OWNER.fullmatch(each) for each in owner)
    return (mount.type, mount.source, stated) == ("tmpfs", "tmpfs", _VOLUME) and plain


@dataclass(frozen=True)
class PreparedRootfs:
    """The changes to a root, and the mounts for the image's volumes."""

    changes: tuple[RootfsChange, ...]
    volumes: tuple[BaselineMount, ...]


def prepare(root: Root, *, baseline: Baseline, cwd: str, volumes: Iterable[str]) -> PreparedRootfs:
    """Make every mount point, the working directory and the volumes' directories.

    Raise BuildError for a mount point that would replace the image's own files, and for a working
    directory or volume in a forbidden tree, also where links lead there; ArchiveRefused for links that
    loop.
    """
    workshop = _MountPoints(root, baseline)
    for point in baseline.directories:
        workshop.mount_point(point)
    for point in baseline.files:
        workshop.file(point)
    real = workshop.directory(cwd, "working directory")
    mounts = [workshop.volume(path) for path in volumes]
    if _made_anew(real, baseline) and all(os.fsencode(mount.destination) != real for mount in mounts):
        mounts.append(workshop.volume(cwd, "working directory"))
    return PreparedRootfs(tuple(workshop.changes), tuple(mounts))


def refuse_forbidden(path: bytes, what: str, baseline: Baseline) -> None:
    """Raise BuildError when `path`, free of links, lies in a tree where only the kernel's files are."""
    for tree in map(os.fsencode, baseline.forbidden):
        if path == tree or path.startswith(tree + b"/"):
            raise BuildError(f"{what} {show(path)} lies in {tree.decode()}, where nothing of an image may")


def _made_anew(path: bytes, baseline: Baseline) -> bool:
    """Whether a path lies in a file system that is empty at each start, where runtimes would not find it."""
    places = [mount.destination for mount in baseline.mounts if mount.type == "tmpfs"]
    return any(path.startswith(os.fsencode(resolved) + b"/") for resolved in places)


class _MountPoints:
    """One root, and the changes to it so far."""

    def __init__(self, root: Root, baseline: Baseline) -> None:
        self.changes: list[RootfsChange] = []
        self._root = root
        self._baseline = baseline

    def mount_point(self, point: Point) -> None:
        """A directory at the top that is itself no link: any other file there goes."""
        path = os.fsencode(point.path)
        resolved = self._root.locate(path, follow=False)
        if resolved.is_directory:
            return
        before = self._describe_target(resolved)
        with _time_kept(self._root.fd) as time:
            if resolved.status is not None:
                os.unlink(path.lstrip(b"/"), dir_fd=self._root.fd)
            _new_directory(self._root.fd, path.lstrip(b"/"), point.mode, time)
        self._made(point.path, before, "an empty directory")

    def file(self, point: Point) -> None:
        """A regular file where the directory part leads. A link to a file becomes a copy of that file."""
        folder, _, name = os.fsencode(point.path).rpartition(b"/")
        path = self.directory(os.fsdecode(folder), "directory") + b"/" + name
        resolved = self._root.locate(path, follow=False)
        if resolved.is_file:
            return
        before, content = self._describe_target(resolved), self._link_content(resolved)
        with self._open_directory_at(path.rpartition(b"/")[0]) as fd, _time_kept(fd) as time:
            if resolved.is_directory:
                _remove_empty(fd, name, point.path)
            elif resolved.status is not None:
                os.unlink(name, dir_fd=fd)
            _create_placeholder(fd, name, content, point.mode, time)
        self._made(point.path, before, "a copy of the file it led to" if content else "an empty file")

    def directory(self, path: str, what: str) -> bytes:
        """A directory, made where it is missing, wherever in the root links lead. Gives its real path."""
        target = os.fsencode(path)
        resolved = self._root.locate(target)
        refuse_forbidden(resolved.path, what, self._baseline)
        if resolved.status is not None and not resolved.is_directory:
            raise BuildError(f"{what} {show(target)} of the image is {resolved.kind}")
        if resolved.links:
            self.changes.append(
                RootfsChange(path, "contained", f"its links lead to {show(resolved.path)} in the root")
            )
        if resolved.status is None:
            self._make_path(resolved.path, f"{what} {show(target)}")
            self.changes.append(RootfsChange(path, "created", f"an empty directory: the {what} of the image"))
        return resolved.path.rstrip(b"/")

    def volume(self, path: str, what: str = "volume") -> BaselineMount:
        """The tmpfs for a volume, with mode and owner of the directory it hides."""
        real = self.directory(path, what)
        if not real:
            raise BuildError(f"{what} {path!r} of the image leads to its root")
        status = self._root.locate(real).status
        assert status is not None
        if self._root.names(real):
            self.changes.append(
                RootfsChange(path, "hidden", f"the image's files in this {what} are hidden by a tmpfs")
            )
        owner = (f"mode={stat.S_IMODE(status.st_mode):o}", f"uid={status.st_uid}", f"gid={status.st_gid}")
        return BaselineMount(os.fsdecode(real), "tmpfs", "tmpfs", (*_VOLUME, *owner))

    def _make_path(self, path: bytes, what: str) -> None:
        parts = path.strip(b"/").split(b"/")
        if b".." in parts:
            raise BuildError(f"{what} goes through a directory that is not there, and up again")
        for depth, name in enumerate(parts):
            if self._root.locate(b"/".join(parts[: depth + 1])).is_directory:
                continue
            try:
                with self._open_directory_at(b"/" + b"/".join(parts[:depth])) as fd, _time_kept(fd) as time:
                    _new_directory(fd, name, 0o755, time)
            except OSError as error:
                raise BuildError(f"cannot create {what}: {error.strerror}") from error

    @contextlib.contextmanager
    def _open_directory_at(self, path: bytes) -> Iterator[int]:
        """The directory at `path`, which is free of links, opened for reading."""
        with self._root.parent(path or b"/") as (parent, name, _):
            fd = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            yield fd
        finally:
            os.close(fd)

    def _link_content(self, resolved: ResolvedPath) -> bytes:
        if not resolved.is_link:
            return b""
        try:
            if not self._root.locate(resolved.path).is_file:
                return b""
        except ArchiveRefused:  # a loop: it never had content
            return b""
        return self._root.read(resolved.path, limit=LARGEST_COPY)

    def _describe_target(self, resolved: ResolvedPath) -> str:
        target = f" to {show(self._root.readlink(resolved.path))}" if resolved.is_link else ""
        return "" if resolved.status is None else resolved.kind + target

    def _made(self, path: str, before: str, now: str) -> None:
        detail = f"{before} became {now}" if before else now
        self.changes.append(RootfsChange(path, "replaced" if before else "created", detail))


@contextlib.contextmanager
def _time_kept(fd: int) -> Iterator[int]:
    """Yield a directory's modification time in ns, for new entries, and restore it at the end."""
    before = os.fstat(fd).st_mtime_ns
    yield before
    os.utime(fd, ns=(before, before))


def _new_directory(fd: int, name: bytes, mode: int, time: int) -> None:
    os.mkdir(name, 0o700, dir_fd=fd)
    made = os.open(name, _DIRECTORY, dir_fd=fd)
    try:
        os.fchmod(made, mode)
        os.utime(made, ns=(time, time))
    finally:
        os.close(made)


def _create_placeholder(fd: int, name: bytes, content: bytes, mode: int, time: int) -> None:
    with os.fdopen(os.open(name, _NEW_FILE, 0o600, dir_fd=fd), "wb") as made:
        made.write(content)
        made.flush()
        os.fchmod(made.fileno(), mode)
        os.utime(made.fileno(), ns=(time, time))


def _remove_empty(fd: int, name: bytes, path: str) -> None:
    try:
        os.rmdir(name, dir_fd=fd)
    except OSError as error:
        raise BuildError(
            f"{path} of the image is a directory with files in it, where a file must be"
        ) from error
