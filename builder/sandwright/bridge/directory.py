"""The directory of a bridge: a part for its sandbox, and a part for itself. Also removes stale ones.

`public` has the shims, the socket at which the bridge listens, and the port of its listener on the sandbox's
loopback. `private`, beside it, is the bridge's.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright import user_dirs
from sandwright.bridge.shim import SHIM_PROGRAM
from sandwright.environment import SHIMS
from sandwright.errors import HostError, UsageError
from sandwright.launcher.shim_names import ENTER, SHIM
from sandwright.locking import lock_within
from sandwright.signalling import is_same_user_process, kill
from sandwright.sockets import socket_name

SESSION_MARK = "SANDWRIGHT_BRIDGE"
"""In the environment of a bridge and of all its programs: its session, by which they are found afterwards."""

PORT = "port"
LISTEN = "listen"
"""Files in the public directory: the port of the bridge on the sandbox's loopback, which exists once a
listener was passed; and the required port, because all sandboxes of a bridge use one number."""

PORTS = range(49152, 65536)
"""Ports for dynamic use, which are never assigned (RFC 6335, section 6)."""

LOCK_SECONDS = 30.0
BACKLOG = 512
_CHANNEL = 40
"""The channel's descriptor is this or higher: launchers use those below 10."""

_MAX_SOCKET_PATH = 103
"""Bytes of a socket's path that macOS takes (sun_path is 104). Linux reaches any through /proc/self/fd."""


@dataclass(frozen=True)
class Bridge:
    """A running bridge.

    `public` is the directory to mount inside, read-only and at any path: `bin/`, which has a shim for each
    program, goes first on PATH. `audit` is the log of its calls. `channel` is a descriptor, not inherited by
    default, over which a sandbox without Unix sockets passes the bridge a listener on its loopback.
    """

    session: str
    public: Path
    audit: Path
    pid: int
    channel: int

    @property
    def bin(self) -> Path:
        """The directory of the shims."""
        return self.public / "bin"

    @property
    def socket(self) -> Path:
        """The socket at which the bridge listens."""
        return self.public / "socket"

    @property
    def environment(self) -> dict[str, str]:
        """The variable for a rendered launcher that is a shell script."""
        return {SHIMS.name: str(self.public)}


def xdg_directory(environment: Mapping[str, str], variable: str, default: str) -> Path:
    """A directory of sandwright's, by the environment's variable or the default below the home."""
    value = environment.get(variable, "")
    return (Path(value) if value.startswith("/") else Path.home() / default) / "sandwright"


@contextlib.contextmanager
def bridge_directory(base: Path) -> Iterator[tuple[Path, int]]:
    """The directory of this bridge, and a lock that is held while any of its processes lives.

    Also removes the directories of dead bridges.
    """
    user_dirs.private(str(base))
    sweep_bridges(base)
    directory = base / os.urandom(6).hex()
    if sys.platform != "linux" and len(os.fsencode(directory / "public" / "socket")) > _MAX_SOCKET_PATH:
        raise UsageError(f"{base}: the path is too long for a socket")
    with _hold_file_lock(base / "lock"):
        directory.mkdir(mode=0o700)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        (directory / "private").mkdir(mode=0o700)
        (directory / "public" / "bin").mkdir(parents=True)
        yield directory, lock
    finally:
        remove(directory)
        os.close(lock)


def bridges_directory(environment: Mapping[str, str]) -> Path:
    """The default parent of bridges' directories."""
    return xdg_directory(environment, "XDG_CACHE_HOME", ".cache") / "sessions" / "bridge"


def stale(base: Path) -> list[Path]:
    """The directories of ended bridges that did not remove them."""
    if not (base / "lock").exists():
        return []
    with _hold_file_lock(base / "lock"):
        return _ended_bridges(base)


def sweep_bridges(base: Path) -> list[Path]:
    """Remove the directories of ended bridges that did not do so, and give their paths."""
    if not base.is_dir():
        return []
    with _hold_file_lock(base / "lock"):
        gone = _ended_bridges(base)
        for directory in gone:
            end_marked(directory.name)
            remove(directory)
    return gone


def _ended_bridges(base: Path) -> list[Path]:
    return sorted(each for each in base.iterdir() if each.is_dir() and not _is_held(each / "lock"))


def _is_held(lock: Path) -> bool:
    try:
        with _hold_file_lock(lock, wait=False):
            return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


@contextlib.contextmanager
def _hold_file_lock(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file. Without waiting, raise BlockingIOError when another process holds it.

    Else raise HostError after `LOCK_SECONDS`.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not lock_within(fd, LOCK_SECONDS if wait else 0.0):
            raise HostError(f"{path} is locked by another process, and stays so") if wait else BlockingIOError
        yield
    finally:
        os.close(fd)


def write_shims(public: Path, names: Iterable[str], *, signing: Iterable[str] = (), platform: str) -> None:
    """Write the shim program, and a link to it for each name; and the port for listeners.

    `signing` are names of shims that only sign. Raise HostError for a platform without a shim program.
    """
    if platform not in SHIM_PROGRAM.platforms:
        raise HostError(f"there is no shim program for {platform}")
    shutil.copyfile(SHIM_PROGRAM.path(platform), public / SHIM)
    (public / SHIM).chmod(0o755)
    (public / ENTER).symlink_to(SHIM)
    for name in signing:
        (public / f"sign-{name}").touch()  # by it the shim knows that all else is the sandbox's own program's
    for name in {*names, *signing}:
        (public / "bin" / name).symlink_to(f"../{SHIM}")
    write_number(public / LISTEN, PORTS[int.from_bytes(os.urandom(4)) % len(PORTS)])


def write_number(path: Path, number: int) -> None:
    """Write a file whole: a shim may be reading it."""
    part = path.with_name(f".{path.name}")
    part.write_text(f"{number}\n", encoding="ascii")
    part.replace(path)


def remove(directory: Path) -> None:
    """Remove one of the bridge's directories, also when another process removes it meanwhile."""
    shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def listening(public: Path) -> Iterator[socket.socket]:
    """A socket that listens in a public directory."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        _bind(listener, public)
        (public / "socket").chmod(0o600)
        listener.listen(BACKLOG)
        yield listener


@contextlib.contextmanager
def channel() -> Iterator[tuple[int, socket.socket]]:
    """The channel over which a sandbox passes a listener: the descriptor for launchers, and the bridge's end.

    The caller closes the bridge's end.
    """
    ours, theirs = socket.socketpair()
    with ours:
        passed = fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD_CLOEXEC, _CHANNEL)
    try:
        yield passed, theirs
    finally:
        with contextlib.suppress(OSError):
            os.close(passed)


def _bind(listener: socket.socket, directory: Path) -> None:
    """Bind to `socket` in a directory, even if its path is long."""
    if sys.platform != "linux":
        listener.bind(str(directory / "socket"))
        return
    with socket_name(str(directory / "socket")) as name:
        listener.bind(name)


def end_marked(session: str) -> None:
    """Kill processes that an ended bridge left. They are recognized by their environment."""
    mark = f"{SESSION_MARK}={session}".encode()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        pid = int(entry.parent.name)
        kill(pid, sure=functools.partial(_marked, pid, mark))


def _marked(pid: int, mark: bytes) -> bool:
    """Whether a process of this user, in no sandbox, was started with a variable."""
    with contextlib.suppress(OSError):
        return is_same_user_process(pid) and mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False
