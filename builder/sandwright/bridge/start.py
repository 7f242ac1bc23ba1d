"""Starts a bridge for a session, and ends it with the session."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import select
import shutil
import socket
import struct
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sandwright import process, user_dirs
from sandwright.bridge.access import entries
from sandwright.bridge.configuration import SESSION_MARK, CallLimits, Configuration
from sandwright.bridge.environment import trusted_search_path
from sandwright.bridge.keys import signing_keys
from sandwright.bridge.programs import host_variables, kept_always, programs, reach
from sandwright.bridge.remotes import repositories
from sandwright.bridge.restricted import write_restriction
from sandwright.bridge.shim import SHIM_PROGRAM
from sandwright.bridge.workspace import remove
from sandwright.environment import SHIMS
from sandwright.errors import HostError, UsageError
from sandwright.locking import lock_within
from sandwright.methods.shared.shims import ENTER, SHIM
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.signalling import is_same_user_process, kill
from sandwright.sockets import socket_name
from sandwright.streams import write_all

READY_SECONDS = 30.0
END_SECONDS = 20.0
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


@contextlib.contextmanager
def serve(
    policy: ResolvedPolicy,
    *,
    directory: Path | None = None,
    audit: Path | None = None,
    platform: str | None = None,
    environment: Mapping[str, str] | None = None,
    uids: Sequence[int] | None = None,
    limits: CallLimits | None = None,
) -> Iterator[Bridge]:
    """Run a bridge for the length of a `with`, for a policy's shims and signing keys in its project.

    `directory` is where bridges have their directories (absent: `sandwright/sessions/bridge` in the user's
    cache, which no sandbox sees: one that sees the directory of another sandbox's bridge can use its shims);
    `audit` the log (absent: `sandwright/bridge.jsonl` in the user's state); `platform` the sandbox's (absent:
    the host's); `environment` the host's variables (absent: this process's); `uids` those who may connect
    besides this user.

    If it raises, nothing runs: RenderError for an impossible entry or secret, UsageError for a missing secret
    or a directory that the sandbox may write, ToolMissing for a program that is not installed, HostError if
    the bridge doesn't start.
    """
    variables = os.environ if environment is None else environment
    base = (directory or bridges_directory(variables)).resolve()
    log = audit or _xdg_directory(variables, "XDG_STATE_HOME", ".local/state") / "bridge.jsonl"
    sandbox = reach(policy)
    for path in (base, log):
        if sandbox.writes(str(path)):
            raise UsageError(f"{path} may be written by the sandbox; a bridge can't be there")
    project = Path(policy.canonical(policy.facts.project))
    search = trusted_search_path(variables, sandbox.writes)
    found = dict(programs(policy, variables, search, sandbox))
    keys = tuple(signing_keys(policy, variables, search, sandbox))
    with contextlib.ExitStack() as stack:
        session_dir, lock = stack.enter_context(_bridge_directory(base))
        configuration = Configuration(
            session=session_dir.name, workspace=project, audit=log,
            public=session_dir / "public", private=session_dir / "private",
            programs=found, uids=tuple({os.geteuid(), *(uids or ())}), limits=limits or CallLimits(),
            environment={**host_variables(variables, sandbox), "PATH": search},
            access=tuple(entries(policy, str(project))), loopback=policy.network.mode != "host",
            repositories=tuple(repositories(project, functools.partial(kept_always, policy))),
            restricting=write_restriction(session_dir / "private") if "git" in found or keys else None,
            signing=keys,
        )  # fmt: skip
        _write_shims(configuration, platform or policy.facts.platform)
        channel, pid = stack.enter_context(_start_process(configuration, lock))
        yield Bridge(session_dir.name, configuration.public, log, pid, channel)


def _xdg_directory(environment: Mapping[str, str], variable: str, default: str) -> Path:
    value = environment.get(variable, "")
    return (Path(value) if value.startswith("/") else Path.home() / default) / "sandwright"


@contextlib.contextmanager
def _bridge_directory(base: Path) -> Iterator[tuple[Path, int]]:
    """The directory of this bridge, and a lock that is held while any of its processes lives.

    Also removes the directories of dead bridges.
    """
    user_dirs.private(str(base))
    sweep_bridges(base)
    directory = base / uuid.uuid4().hex[:12]
    if sys.platform != "linux" and len(os.fsencode(directory / "public" / "socket")) > _MAX_SOCKET_PATH:
        raise UsageError(f"{base}: a socket's path can't be that long")
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
    return _xdg_directory(environment, "XDG_CACHE_HOME", ".cache") / "sessions" / "bridge"


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
            _end_marked(directory.name)
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


def _write_shims(configuration: Configuration, platform: str) -> None:
    """Write the shim program, and a link to it for each name. Raise HostError for a platform without one."""
    public = configuration.public
    if platform not in SHIM_PROGRAM.platforms:
        raise HostError(f"there is no shim program for {platform}")
    shutil.copyfile(SHIM_PROGRAM.path(platform), public / SHIM)
    (public / SHIM).chmod(0o755)
    (public / ENTER).symlink_to(SHIM)
    signing = {each.program for each in configuration.signing}
    for name in signing:
        (public / f"sign-{name}").touch()  # by it the shim knows that all else is the sandbox's own program's
    for name in {*configuration.programs, *signing}:
        (public / "bin" / name).symlink_to(f"../{SHIM}")


@contextlib.contextmanager
def _start_process(configuration: Configuration, lock: int) -> Iterator[tuple[int, int]]:
    """The bridge's process. Give the sandbox's end of the channel, and its pid."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        _bind(listener, configuration.public)
        (configuration.public / "socket").chmod(0o600)
        listener.listen(BACKLOG)
        ours, theirs = (stack.enter_context(each) for each in socket.socketpair())
        reading, writing = os.pipe()
        # A file object closes once, however often close() is called: another thread may reuse the number.
        source = stack.enter_context(os.fdopen(reading, "rb", buffering=0))
        lifeline = stack.enter_context(os.fdopen(writing, "wb", buffering=0))
        fds = (listener.fileno(), theirs.fileno(), lock)
        started = stack.enter_context(
            process.start(
                sys.executable, "-P", "-s", "-m", "sandwright.bridge", str(fds[0]), str(fds[1]),
                stdin=source, pass_fds=fds, cwd=configuration.private,
                env={
                    "PYTHONPATH": str(Path(__file__).parents[2]), "PATH": configuration.environment["PATH"],
                    SESSION_MARK: configuration.session,
                },
            )
        )  # fmt: skip
        listener.close()  # or its queue would accept calls that stay unanswered once the bridge has died
        theirs.close()
        source.close()
        try:
            _send_configuration(lifeline.fileno(), configuration)
            _await_ready(started.stdout, started.stderr)
            channel = fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD_CLOEXEC, _CHANNEL)
            stack.callback(_close, channel)
            yield channel, started.pid
        finally:
            lifeline.close()
            if not _wait_for_end(started.poll):
                process.kill(started)
            _end_marked(configuration.session)


def _bind(listener: socket.socket, directory: Path) -> None:
    """Bind to `socket` in a directory, even if its path is long."""
    if sys.platform != "linux":
        listener.bind(str(directory / "socket"))
        return
    with socket_name(str(directory / "socket")) as name:
        listener.bind(name)


def _send_configuration(lifeline: int, configuration: Configuration) -> None:
    text = configuration.to_json()
    with contextlib.suppress(BrokenPipeError):  # it has died; what it said is read next
        write_all(lifeline, struct.pack(">I", len(text)) + text)


def _await_ready(stdout: IO[bytes] | None, stderr: IO[bytes] | None) -> None:
    assert stdout is not None
    assert stderr is not None
    ready, _, _ = select.select([stdout], [], [], READY_SECONDS)
    if not ready:
        raise HostError(f"the bridge was not ready within {READY_SECONDS:g} s")
    if not os.read(stdout.fileno(), 1):
        raise HostError(f"the bridge did not start:\n{stderr.read().decode(errors='replace')[-4000:]}")


def _wait_for_end(poll: Callable[[], int | None]) -> bool:
    """Wait for the bridge's own end."""
    until = time.monotonic() + END_SECONDS
    while poll() is None:
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def _end_marked(session: str) -> None:
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


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)
