"""The questions to this host that a recording consists of, and how each is answered.

A question is words: a kind, a subject, and more for some kinds. An answer is words too, none for nothing.
docs/front.md describes every kind; `front/source/questions.c` compares the answers natively.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from sandwright import digests
from sandwright.git.index import MODE, MOST, shared_indexes
from sandwright.landlock import landlock_version
from sandwright.mount_aliases import MountTable, join_aliases, read_mounts
from sandwright.nested import check_listed, check_passable, find_names

EntryKind = Literal["directory", "file", "symlink", "socket", "device", "fifo"]

Answer = tuple[str, ...]
Question = tuple[str, ...]

SMALL = 1 << 20
"""Bytes of a file that are compared; the size is compared as well."""

ENTRIES: dict[str, EntryKind] = {
    "d": "directory", "f": "file", "l": "symlink", "s": "socket", "p": "fifo", "c": "device"
}  # fmt: skip
"""The first letter of an entry's kind."""


def entry_at(path: str) -> str:
    """The entry at a path: a letter of ENTRIES, for a link with its text; empty for nothing visible.

    Also for the placeholder of a session that runs, which goes with it.
    """
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return f"l{os.fsdecode(os.readlink(path))}"
    except (OSError, ValueError):
        return ""
    return "" if is_placeholder(path, status) else _letter(status.st_mode)


def _letter(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "d"
    if stat.S_ISSOCK(mode):
        return "s"
    if stat.S_ISFIFO(mode):
        return "p"
    return "f" if stat.S_ISREG(mode) else "c"


def is_process(path: str) -> bool:
    """Whether a path is about processes: any path in /proc except the kernel's own files and directories."""
    first = path.removeprefix("/proc/").partition("/")
    return path.startswith("/proc/") and (bool(first[1]) or first[0].isdigit() or first[0] in _ASKERS)


_ASKERS = ("self", "thread-self", "mounts", "net")
"""Links in /proc whose target depends on the process."""


def is_placeholder(path: str, status: os.stat_result) -> bool:
    """Whether a launcher put the file at a path there, for the time of a run (`placeholders.c`).

    It is recognised by an unusual mode: an empty directory that is sticky and read-only for all, or an empty
    file of Git that is read-only for all. The directory above may hand on its group, and an access list that
    takes more away.
    """
    if not may_be_placeholder(os.path.basename(path), status):
        return False
    try:
        if stat.S_ISDIR(status.st_mode):
            return not os.listdir(path)
        with open(path, "rb") as file:
            return file.read(3) in COVERED_TEXTS
    except OSError:
        return False


def may_be_placeholder(name: str, status: os.stat_result) -> bool:
    """Whether a file is a placeholder by its name and status, unless its content differs."""
    if status.st_mode & _WRITABLE:
        return False
    if stat.S_ISDIR(status.st_mode):
        return bool(status.st_mode & stat.S_ISVTX)
    return stat.S_ISREG(status.st_mode) and status.st_size in _COVERED_SIZES and name in _COVERED_NAMES


_WRITABLE = 0o222
_COVERED_SIZES = (0, 2)
COVERED_TEXTS = (b"", b".\n")
_COVERED_NAMES = ("alternates", "attributes", "commondir", "config", "config.worktree")


def sockets_of(visible: Iterable[str], hidden: Iterable[str]) -> Question:
    """The Unix sockets that take connections at or below directories: the nearest rule above decides."""
    marks = dict.fromkeys(visible, "+") | dict.fromkeys(hidden, "-")
    return ("sockets", "", *(f"{mark}{path}" for path, mark in sorted(marks.items(), reverse=True)))


def _listening_sockets(_: str, *places: str) -> Answer:
    """The canonical paths of Unix sockets that take connections or datagrams here, sorted.

    The places are the same as those of `sockets_of`.
    """
    marks = {each[1:]: each[:1] == "+" for each in places}
    return (
        tuple(sorted(filter(lambda path: _is_visible(path, marks), _listening())))
        if any(marks.values())
        else ()
    )


def _listening() -> set[str]:
    """The canonical paths of all of them (proc(5), /proc/net/unix); those with links are bound by these.

    The kernel reports names unescaped, even a name that contains line breaks.
    """
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            fields = [line.split(None, 7) for line in file.read().split("\n")[1:]]
    except OSError:
        return set()
    # Flags of a listening one are __SO_ACCEPTCON, 00010000 (linux/net.h); type 2 is SOCK_DGRAM.
    named = (
        each[7]
        for each in fields
        if len(each) == 8
        and each[7].startswith("/")
        and not each[7].startswith("/proc/")
        and (each[3][3:4] == "1" or each[4] == "0002")
    )
    folders: dict[str, str] = {}
    found = set()
    for path in named:
        folder, _, name = path.rpartition("/")
        if folder not in folders:
            folders[folder] = _real(folder or "/")
        if folders[folder]:
            found.add(f"{folders[folder].rstrip('/')}/{name}")
    return found


def _real(folder: str) -> str:
    """The canonical path of a directory; empty where it can't be reached from here."""
    try:
        return os.path.realpath(folder, strict=True)
    except (OSError, ValueError):
        return ""


def _is_visible(path: str, marks: dict[str, bool]) -> bool:
    while path not in marks and path != "/":
        path = path.rpartition("/")[0] or "/"
    return marks.get(path, False)


def _stamp(path: str) -> Answer:
    """The file at a path, links followed, and the times at which it was last written or otherwise changed.

    Only root can set the time of the last change (ctime) back.
    """
    return (_numbers(os.stat, path, slice(1, 9)),)


def _artifact(path: str) -> Answer:
    """The same of a file that we wrote, a link not followed, as other names of it may come and go."""
    return (_numbers(os.lstat, path, slice(1, 8)),)


def _statuses(*paths: str) -> Answer:
    """The number of a plain file's names; the mode (stat.h), owner, group and device, links not followed."""
    return tuple(_numbers(os.lstat, path, slice(5)) for path in paths)


def _numbers(ask: Callable[[str], os.stat_result], path: str, chosen: slice) -> str:
    """The file at a path, as numbers separated by commas; empty for nothing."""
    try:
        found = ask(path)
    except (OSError, ValueError):
        return ""
    names = found.st_nlink if stat.S_ISREG(found.st_mode) else 0
    numbers = [names, found.st_mode, found.st_uid, found.st_gid, found.st_dev, found.st_ino]
    numbers += [found.st_size, found.st_mtime_ns, found.st_ctime_ns]
    return ",".join(map(str, numbers[chosen]))


def content_of(path: str) -> tuple[int, bytes | None]:
    """The size of a plain file, and its first MiB; None for anything else.

    Another user may have put a pipe there, and opening it would block.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return 0, None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or is_placeholder(path, status):
            return 0, None
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(SMALL)
        return max(status.st_size, len(content)), content  # files of /proc say 0
    except OSError:
        return 0, None
    finally:
        os.close(descriptor)


def _content_digest(path: str) -> Answer:
    """The size of a plain file, and the SHA-256 of its first MiB; nothing for anything else."""
    return digest_of(*content_of(path))


def digest_of(size: int, content: bytes | None) -> Answer:
    """The answer to `content`, for the result of `content_of`."""
    return () if content is None else (str(size), digests.sha256(content))


def _machine(_: str) -> Answer:
    """Bytes of memory, in MiB (0: unknown), Landlock's version (0: none), user, group, other groups."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20 << 20
    except (OSError, ValueError):
        memory = 0
    return tuple(map(str, (memory, _landlock(), os.getuid(), os.getgid(), *os.getgroups())))


@functools.cache
def _landlock() -> int:
    return landlock_version() if sys.platform == "linux" else 0


def _minute(_: str) -> Answer:
    """The current minute: for facts that no other question covers."""
    return (str(int(time.time()) // 60),)


def index_bytes(path: str) -> bytes:
    """An index of Git's; empty where it can't be read, or is no plain file."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(MOST) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except (OSError, ValueError):
        return b""


def _index_digest(path: str) -> Answer:
    """The digest of a split index of Git's, or one with an entry for another repository; else its mark.

    So a file that every commit changes causes no new rendering if there is no such entry.
    """
    return index_of(index_bytes(path))


def index_of(data: bytes) -> Answer:
    """The answer to `index`, for its bytes."""
    return (digests.sha256(data) if MODE in data or shared_indexes(data) else "none",) if data else ()


def _nested(root: str, *names: str) -> Answer:
    """At which paths below a directory one of some names is there, as `nested.find_names` gives them."""
    return tuple(find_names(root, names))


def _mount_aliases(*paths: str) -> Answer:
    """For each path its other paths, joined, as `MountTable.aliases` gives them."""
    mounts = MountTable(read_mounts())
    return tuple(join_aliases(mounts.aliases(path)) for path in paths)


def _directory_listing(path: str) -> Answer:
    """The names in a directory, sorted, with a slash after each directory's name, links not followed."""
    try:
        with os.scandir(path) as entries:
            names = sorted(f"{each.name}{'/' * each.is_dir(follow_symlinks=False)}" for each in entries)
        check_passable(path)
        return tuple(names)
    except ValueError:
        return ()
    except OSError as error:
        check_listed(path, error)
        return ()


def _tree_digest(*roots: str) -> Answer:
    """A sum over the files in some directories: their identities and times of change."""
    total = 0
    for found in _files_in(roots):
        if found is None:
            total += 1
        else:
            numbers = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            total += sum(number * factor for number, factor in zip(numbers, _FACTORS, strict=True))
    return (str(total & (1 << 64) - 1),)


def _files_in(roots: Iterable[str]) -> Iterator[os.stat_result | None]:
    """The status of each file in some directories; None for a directory that can't be read."""
    for root in roots:
        try:
            with os.scandir(root) as entries:
                for each in entries:
                    if not each.is_dir(follow_symlinks=False):
                        yield each.stat(follow_symlinks=False)
        except (OSError, ValueError):
            yield None


def last_change(question: Question, answer: Answer) -> int:
    """The ctime of a question's subject, unless the answer is its content; then 0."""
    if question[0] == "stamp":
        return int(answer[0].rpartition(",")[2] or 0)
    found = _files_in(question[1:]) if question[0] == "tree" else ()
    return max((each.st_ctime_ns for each in found if each), default=0)


_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5)
"""Odd, and without a pattern, so that the terms of two files do not cancel out."""


def _variable_values(*names: str) -> Answer:
    """The values of variables behind `=`; empty for one that is not set."""
    return tuple(f"={os.environ[name]}" if name in os.environ else "" for name in names)


KINDS: dict[str, Callable[..., Answer]] = {
    "aliases": _mount_aliases,
    "artifact": _artifact,
    "content": _content_digest,
    "index": _index_digest,
    "listing": _directory_listing,
    "machine": _machine,
    "minute": _minute,
    "nested": _nested,
    "sockets": _listening_sockets,
    "stamp": _stamp,
    "status": _statuses,
    "tree": _tree_digest,
    "variable": _variable_values,
}
"""The possible questions, beside `entries`, which asks about some names in a directory."""
