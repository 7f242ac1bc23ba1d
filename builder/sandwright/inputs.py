"""Questions about this host whose answers decide what is made, kept so that they can be asked again.

What was made of the answers holds while they are the same. A question is a kind and a subject, its answer
plain JSON data. Asking again needs nothing but the standard library, and starts nothing.
"""

from __future__ import annotations

import os
import stat
import sys
import time

from sandwright import digests, smalljson

TYPE_CHECKING = False  # `typing` takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

Answer = str | int | list[str] | list[int] | None
Question = tuple[str, str]
Asked = tuple[str, str, Answer]
"""A question with its answer."""

_SMALL = 1 << 20


class InputTracker:
    """Answers by question; each is asked once."""

    def __init__(self) -> None:
        """Nothing is asked yet."""
        self._answers: dict[Question, Answer] = {}

    def ask(self, kind: str, subject: str) -> Answer:
        """The answer to a question, as it was when it was first asked here. Raise KeyError for no kind."""
        question = (kind, subject)
        if question not in self._answers:
            self._answers[question] = KINDS[kind](subject)
        return self._answers[question]

    def ask_all(self, questions: Iterable[Question]) -> None:
        """Ask some more."""
        for kind, subject in questions:
            self.ask(kind, subject)

    def asked(self) -> list[Asked]:
        """All of them, in their order."""
        return [(kind, subject, answer) for (kind, subject), answer in self._answers.items()]


def changed(asked: Iterable[Asked]) -> Question | None:
    """The first question whose answer is another now; None when all are the same."""
    for kind, subject, answer in asked:
        ask = KINDS.get(kind)
        if ask is None or ask(subject) != answer:
            return kind, subject
    return None


def _entry(path: str) -> Answer:
    """What is at a path: its type (stat.h), with the text of a link; None for nothing, or nothing to see.

    None too for what /proc shows of whoever looks, which is another thing for each, and for the cover of a
    session that runs, which goes with it.
    """
    if _is_process(path):
        return None
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return [str(stat.S_IFMT(status.st_mode)), os.fsdecode(os.readlink(path))]
    except (OSError, ValueError):
        return None
    return None if is_cover(path, status) else [str(stat.S_IFMT(status.st_mode))]


def _is_process(path: str) -> bool:
    """Whether a path is about processes: anything in /proc but the kernel's own files and directories."""
    first = path.removeprefix("/proc/").partition("/")
    return path.startswith("/proc/") and (bool(first[1]) or first[0].isdigit() or first[0] in _ASKERS)


_ASKERS = ("self", "thread-self", "mounts", "net")
"""Links in /proc that lead each process to something of its own."""


def is_cover(path: str, status: os.stat_result) -> bool:
    """Whether what is at a path was put there by a launcher, for the time of a run (oci/launchers/covers).

    It is known by a mode that nobody else gives: an empty directory that is sticky and not to be written, or
    one of Git's files that nobody may write, and that says nothing. The directory above may hand on its
    group, and an access list that takes more away.
    """
    try:
        if status.st_mode & _WRITABLE:
            return False
        if stat.S_ISDIR(status.st_mode):
            return bool(status.st_mode & stat.S_ISVTX) and not os.listdir(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size not in _COVERED_SIZES:
            return False
        with open(path, "rb") as file:
            return os.path.basename(path) in _COVERED_NAMES and file.read(3) in (b"", b".\n")
    except OSError:
        return False


_WRITABLE = 0o222
_COVERED_SIZES = (0, 2)
_COVERED_NAMES = ("alternates", "attributes", "commondir", "config", "config.worktree")


def _type(path: str) -> Answer:
    """What kind of thing is at a path, links followed, as `stat.S_IFMT` gives it; None for nothing."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return None if is_cover(path, status) else stat.S_IFMT(status.st_mode)


def sockets_of(shown: Iterable[str], hidden: Iterable[str]) -> Question:
    """Which Unix sockets take connections at or below directories: what is nearest above one decides."""
    return "sockets", smalljson.dumps([sorted(set(shown)), sorted(set(hidden))]).decode()


def _sockets(subject: str) -> list[str]:
    """The canonical paths of Unix sockets that take connections or datagrams here, sorted.

    The subject says where, as `sockets_of` does.
    """
    try:
        shown, hidden = (frozenset(each) for each in smalljson.loads(subject.encode()))
    except (ValueError, TypeError):
        return []
    return sorted(path for path in _listening() if _shown(path, shown, hidden)) if shown else []


def _listening() -> set[str]:
    """The canonical paths of all of them (proc(5), /proc/net/unix); those with links are bound by these.

    The kernel tells names as they are, also one that looks like more lines.
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
            folders[folder] = os.path.realpath(folder or "/").rstrip("/")
        found.add(f"{folders[folder]}/{name}")
    return found


def _shown(path: str, shown: Collection[str], hidden: Collection[str]) -> bool:
    above = path
    while above not in hidden:
        if above in shown:
            return True
        if above == "/":
            return False
        above = above.rpartition("/")[0] or "/"
    return False


def _identity(path: str) -> Answer:
    """Which file is at a path, links followed, and when it was last written or replaced; None for none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return [found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns]


def _digest(path: str) -> Answer:
    """The size of a plain file, and the SHA-256 of its first MiB, in hexadecimal; None for anything else.

    Somebody else may have put a pipe there, whose opening would wait.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or is_cover(path, status):
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return [str(status.st_size), digests.sha256(file.read(_SMALL))]
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _memory(_: str) -> int | None:
    """Bytes of this machine's memory, in whole MiB; None when the system doesn't say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20 << 20
    except (OSError, ValueError):
        return None


def _minute(_: str) -> int:
    """Which minute it is: for what no other question tells."""
    return int(time.time()) // 60


def _text(path: str) -> Answer:
    """A small file's text, as /proc and /sys have them; None when it can't be read."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return (file.read(_SMALL) or b"").decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return None


def _gitlinks(path: str) -> Answer:
    """The entries of an index of Git's that are other repositories, sorted; None when it can't be read."""
    from sandwright.gitindex import MOST, gitlinks  # noqa: PLC0415 - only where there is a repository

    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return sorted(map(os.fsdecode, gitlinks(file.read(MOST)))) if regular else None
    except (OSError, ValueError):
        return None


def names_below(root: str, names: Iterable[str]) -> Question:
    """At which paths below a directory one of some names is there, as `nested.find` gives them."""
    return "nested", smalljson.dumps([root, sorted(set(names))]).decode()


def _nested(subject: str) -> Answer:
    """The answer to `names_below`."""
    from sandwright.nested import find  # noqa: PLC0415 - few questions are this one

    try:
        root, names = smalljson.loads(subject.encode())
    except (ValueError, TypeError):
        return None
    return find(str(root), map(str, names))


def _names(path: str) -> Answer:
    """What a directory holds, sorted; None when it can't be listed."""
    try:
        return sorted(os.listdir(path))
    except (OSError, ValueError):
        return None


def _listing(path: str) -> Answer:
    """What a directory holds, sorted, with a stroke behind the name of each directory, links not followed."""
    try:
        with os.scandir(path) as entries:
            return sorted(f"{each.name}{'/' * each.is_dir(follow_symlinks=False)}" for each in entries)
    except (OSError, ValueError):
        return None


def _program(name: str) -> Answer:
    """Where a program is: the first on PATH, else in the directories of the system's own."""
    for folder in (*os.environ.get("PATH", os.defpath).split(os.pathsep), *SYSTEM):
        path = f"{folder or '.'}/{name}"
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _system(_: str) -> Answer:
    """Which system this is, and who we are."""
    system = os.uname()
    return [system.sysname, system.release, system.machine, str(os.getuid()), str(os.getgid())]


def _links(path: str) -> Answer:
    """How many names a plain file has; None for anything else."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return status.st_nlink if stat.S_ISREG(status.st_mode) else None


def _owner(path: str) -> Answer:
    """Whose something is and its mode (stat.h), links not followed; None for nothing."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return [status.st_uid, status.st_mode]


def _passable(path: str) -> Answer:
    """Whether root may pass a directory in a user namespace that maps root alone: 1 or 0.

    Capabilities hold there for no file of another user or group (user_namespaces(7)). What an access list
    lets in can't be told by the mode, and is taken for open.
    """
    try:
        status = os.stat(path)
        if "system.posix_acl_access" in os.listxattr(path):
            return 1
    except (OSError, ValueError):
        return 1
    if status.st_uid == os.geteuid():
        return int(status.st_gid == os.getegid() or bool(status.st_mode & 0o100))
    ours = status.st_gid in (os.getegid(), *os.getgroups())
    return int(bool(status.st_mode & (0o010 if ours else 0o001)))


def _python(_: str) -> Answer:
    """How Python was started: the interpreter, its environments, and where it looks for modules."""
    site = sys.modules.get("site")
    user = getattr(site, "USER_SITE", None) if getattr(site, "ENABLE_USER_SITE", False) else None
    flags = f"{sys.flags.safe_path} {sys.flags.ignore_environment} {sys.pycache_prefix}"
    try:
        here = os.getcwd()
    except OSError:
        here = ""
    return [sys.executable, sys.prefix, sys.base_prefix, flags, str(user), here, *sys.path]


SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where programs are that a user's PATH often lacks."""

KINDS: dict[str, Callable[[str], Answer]] = {
    "digest": _digest,
    "entry": _entry,
    "gitlinks": _gitlinks,
    "identity": _identity,
    "links": _links,
    "listing": _listing,
    "memory": _memory,
    "minute": _minute,
    "names": _names,
    "nested": _nested,
    "owner": _owner,
    "passable": _passable,
    "program": _program,
    "python": _python,
    "real": os.path.realpath,
    "sockets": _sockets,
    "system": _system,
    "text": _text,
    "type": _type,
    "variable": os.environ.get,
}
"""What can be asked. Others add theirs at import."""
