"""Runs a command in a root file system under strace and lists the files that it used.

The root is shown read-only by a sandbox (bubblewrap: no network, no capabilities, no other processes, an
empty /tmp). Every file counts that the command or its children successfully opened, executed, read as a link
or examined; the files of bubblewrap itself, before it became the command, do not count.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandwright import process, user_dirs
from sandwright.errors import BuildError
from sandwright.render.bubblewrap import BwrapArguments
from sandwright.render.filters import shipped_filter
from sandwright.render.restricted import host_architecture

_READ_ONLY = """
for each in null zero full random urandom tty; do
    mount --bind "/dev/$each" "/dev/$each" && mount -o remount,bind,ro "/dev/$each" || exit 125
done
exec "$@"
"""
_HINT = "a traced run needs strace and bubblewrap"
_CALLS = "trace=%file,%process,chdir,fchdir,getdents64"
_LINE = re.compile(r"([a-z0-9_]+)\((.*)\)\s+= (\d+)(?:<[^>]*>)?(?: /\* (\d+) in strace's PID NS \*/)?.*")
_PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>(?:\(deleted\))?, )?"([^"]*)"(?!\.\.\.)')
_DIRECTORY = re.compile(r"\d+<([^>]*)>")
_FORKS = frozenset({"clone", "clone3", "fork", "vfork"})
_USES = frozenset(
    {"open", "openat", "openat2", "execve", "execveat", "stat", "lstat", "newfstatat", "statx", "access"}
    | {"faccessat", "faccessat2", "readlink", "readlinkat", "chdir", "statfs"}
)


@dataclass
class Trace:
    """The files that a run used: absolute paths, in the order of use.

    `listed` are directories whose names it read.
    """

    used: dict[bytes, None] = field(default_factory=dict)
    listed: dict[bytes, None] = field(default_factory=dict)


@dataclass(frozen=True)
class TracedCommand:
    """A run to be traced. `user` is (uid, gid); None stays with the caller's."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str = "/"
    user: tuple[int, int] | None = None


def trace(rootfs: Path, run: TracedCommand, *, timeout: float = 300.0) -> Trace:
    """Run a command in `rootfs` to its end, for at most `timeout` seconds.

    Raise BuildError if it fails, because a failed run does not use all the files that the command needs.
    Raise ToolMissing without strace or bubblewrap, CommandFailed when its time limit is reached.
    """
    strace, bwrap = process.which("strace", hint=_HINT), process.which("bwrap", hint=_HINT)
    with (
        tempfile.TemporaryDirectory(prefix="trace-", dir=user_dirs.scratch()) as folder,
        sandbox(rootfs, run) as words,
    ):
        result = process.run(
            *readonly_devices(),
            *(strace, "-ff", "-qq", "-xx", "-y", "--pidns-translation", "-s", "4096", "-e", _CALLS),
            *("-e", "signal=none", "-o", f"{folder}/t"),
            *(bwrap, *words.argv),
            timeout=timeout,
            check=False,
            pass_fds=words.pass_fds,
            kill_descendants=True,
        )
        if f"bwrap: Can't chdir to {run.cwd}:" in result.stderr and run.cwd != "/":
            # the namespace maps one user, so that the home of another is closed even to root
            return trace(rootfs, replace(run, cwd="/"), timeout=timeout)
        if not result:
            text = f"{result.stderr}{result.stdout.decode(errors='replace')}".strip()[-2000:]
            raise BuildError(f"the traced run of {' '.join(run.argv)} ended with {result.status}\n{text}")
        logs = {int(path.suffix[1:]): path for path in Path(folder).iterdir()}
        return read_logs(logs)


def readonly_devices() -> list[str]:
    """Words before a command that mount the host's devices read-only for it, if this process is root.

    bubblewrap binds them, and a program of root's could change their modes for the whole host. In a container
    that allows no mounts, it can change those of the container.
    """
    probe = [process.find("unshare") or "", "--mount", "--propagation", "private"]
    if os.geteuid() != 0 or not probe[0] or not process.run(*probe, "true", check=False):
        return []
    return [*probe, "sh", "-c", _READ_ONLY, "sh"]


@dataclass(frozen=True)
class SandboxWords:
    """Arguments of bubblewrap, and the descriptors that they name."""

    argv: list[str]
    pass_fds: tuple[int, ...]


@contextlib.contextmanager
def sandbox(rootfs: Path, run: TracedCommand) -> Iterator[SandboxWords]:
    """The arguments of bubblewrap for a run in a read-only root file system, with the `default` filter."""
    bwrap = BwrapArguments().unshare("all").supervise().drop_capabilities()
    bwrap.bind(str(rootfs), "/").proc("/proc").dev("/dev").tmpfs("/tmp")  # noqa: S108
    bwrap.clear_environment().chdir(run.cwd).environment(run.environment.items())
    if run.user is not None:
        bwrap.unshare("user").user(*run.user)
    with os.fdopen(os.memfd_create("filter"), "w+b") as filter_:
        filter_.write(shipped_filter("default", host_architecture(platform.machine())))
        filter_.seek(0)
        bwrap.seccomp(filter_.fileno())
        yield SandboxWords(bwrap.command(run.argv).words, (filter_.fileno(),))


@dataclass
class _Process:
    """A process of the trace: whether it is the command's (or bubblewrap's still), and where it stands."""

    pid: int
    counts: bool
    cwd: bytes


def read_logs(logs: Mapping[int, Path]) -> Trace:
    """Read the files that a traced command used; one log per process, as `strace -ff -xx -y` writes them."""
    found = Trace()
    children = {
        int(line[3])
        for path in logs.values()
        for line in _successful_calls(path)
        if line[0] in _FORKS and line[3]
    }
    ahead = deque(_Process(pid, False, b"/") for pid in sorted(logs) if pid not in children)
    first = True
    while ahead:
        current = ahead.popleft()
        skip_first_exec, first = first, False
        for call, args, result, translated in _successful_calls(logs[current.pid]):
            if call == "execve" and not current.counts:
                current.counts = not skip_first_exec
                skip_first_exec = False
            if call in _FORKS and int(translated or result) in logs:
                ahead.append(_Process(int(translated or result), current.counts, current.cwd))
            _record_call(call, args, current, found)
    return found


def _record_call(call: str, args: str, current: _Process, found: Trace) -> None:
    if call == "getdents64" and (folder := _DIRECTORY.match(args)) and current.counts:
        found.listed[_unhex(folder[1])] = None
    match = _PATH.match(args) if call in _USES else None
    if match is None or not match[2]:
        return
    if match[1]:
        base = _unhex(match[1])
        current.cwd = base if args.startswith("AT_FDCWD") else current.cwd
    else:
        base = current.cwd
    name = _unhex(match[2])
    path = name if name.startswith(b"/") else base + b"/" + name
    if call == "chdir":
        current.cwd = path
    if current.counts:
        found.used[path] = None


def _successful_calls(path: Path) -> Iterator[tuple[str, str, str, str]]:
    """Call, arguments, result and the translated process id, of the calls that succeeded."""
    with path.open(encoding="ascii", errors="replace") as log:
        for line in log:
            match = _LINE.fullmatch(line.rstrip("\n"))
            if match:
                yield match[1], match[2], match[3], match[4] or ""


def _unhex(text: str) -> bytes:
    """A string as `-xx` writes it, every byte in hex."""
    return bytes.fromhex(text.replace("\\x", ""))
