"""The one place that starts programs, each with a time limit (timeout).

There is no shell: each argument reaches the program as it is. Every start has a time limit, and the children
of a program die with it: it leads a process group, which is killed as a whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import IO

from sandwright.errors import CommandFailed, ToolMissing
from sandwright.nested import reversed_components
from sandwright.signalling import kill_all

Argument = str | PathLike[str]

_BUSY = 1.0
_POLL = 0.01
_ASKING = 0.2
_ENDING = 5.0
"""Seconds."""


@dataclass(frozen=True)
class Result:
    """The result of a program, false unless its status is 0. `stdout` is bytes, and `stderr` is text."""

    argv: tuple[str, ...]
    status: int
    stdout: bytes
    stderr: str

    def __bool__(self) -> bool:
        return self.status == 0

    @property
    def text(self) -> str:
        """`stdout` as text, without white space at its ends; undecodable bytes are replaced."""
        return self.stdout.decode(errors="replace").strip()


def which(program: str, *, hint: str = "") -> str:
    """The path of a program. Also looks in the sbin directories, which a user's PATH often lacks.

    Raise ToolMissing if there is none, with `hint` on how to install it.
    """
    found = find(program)
    if found is None:
        raise ToolMissing(program, hint)
    return found


def find(program: str) -> str | None:
    """The path of a program, or None. Looks where `which` looks, but not where a sandbox can have put it.

    That is below a project (`below_project`), and in directories for which `avoid_writable` is true.
    """
    if os.sep in program:
        return shutil.which(program)
    return _find_in(program, (*_absolute_path_entries(), *_SYSTEM))


def find_all(programs: Iterable[str]) -> dict[str, str]:
    """The paths of the programs that `find` finds, by name."""
    holding = folders_with(programs, (*_absolute_path_entries(), *_SYSTEM))
    found = {name: _find_in(name, folders) for name, folders in holding.items()}
    return {name: path for name, path in found.items() if path}


def folders_with(programs: Iterable[str], folders: Iterable[str]) -> dict[str, list[str]]:
    """For each name that is in any of some directories, those that have it, or that can't be listed."""
    names, holding = list(programs), dict[str, list[str]]()
    for folder in folders:
        try:
            there = frozenset(os.listdir(folder))  # noqa: PTH208 - names, not paths
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            there = frozenset(names)
        for name in there.intersection(names):
            holding.setdefault(name, []).append(folder)
    return {name: holding[name] for name in names if name in holding}


def _find_in(program: str, folders: Iterable[str]) -> str | None:
    for folder in folders:
        if shutil.which(program, path=folder):
            spelled, found = f"{folder}/{program}", f"{os.path.realpath(folder)}/{program}"
            if real_path(found, _plantable) and (found == spelled or real_path(spelled, below_project)):
                return found
    return None


def avoid_writable(changes: Callable[[str], bool]) -> None:
    """From now on, use no program that a sandbox could have planted, since it can write its path.

    `changes` returns whether the sandbox can write a canonical path.
    """
    _avoided[:] = [changes]


def search_path() -> str:
    """The directories of PATH, without relative ones, and those that a sandbox can write or lead elsewhere.

    They are spelled as they were: `/bin` is a link here, and a directory in an image that gets this PATH.
    """
    return os.pathsep.join(each for each in _absolute_path_entries() if real_path(each, _plantable))


def _absolute_path_entries() -> list[str]:
    """The directories of PATH, without relative ones."""
    return [each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each.startswith("/")]


def below_project(path: str) -> bool:
    """Whether a canonical path is, or is below, a directory with a `sandbox.yaml`.

    Files there may come from a sandbox of that project, whichever project we work for now.
    """
    while path.strip("/"):  # a project that is all of the host would leave no programs
        if os.path.lexists(f"{path}/sandbox.yaml"):
            return True
        path = path.rpartition("/")[0]
    return False


def real_path(path: str, changes: Callable[[str], bool], *, above: str = "") -> str | None:
    """The canonical target of a path; None where `changes` is true of that, or of a link on the way.

    It is absolute, or relative to `above`, a path without links.
    """
    pending, current, links = reversed_components(path), above, 0
    while pending:
        part = pending.pop()
        current_path = f"{current}/{part}"
        if part == "..":
            current = current.rpartition("/")[0]
            continue
        try:
            target = os.readlink(current_path)  # noqa: PTH115 - called for thousands of places
        except (OSError, ValueError):  # no link, or nothing
            current = current_path
            continue
        links += 1
        if links > MAX_LINKS or changes(current_path):
            return None
        current = "" if target.startswith("/") else current
        pending += reversed_components(target)
    return None if changes(current or "/") else current or "/"


def _never(_: str) -> bool:
    return False


def _plantable(path: str) -> bool:
    """Whether a sandbox can have written a path: this one (`avoid_writable`), or another project's."""
    return _avoided[-1](path) or below_project(path)


_avoided: list[Callable[[str], bool]] = [_never]
_SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")
MAX_LINKS = 40
"""Links that are followed in one path (MAXSYMLINKS of Linux)."""


def run(
    *argv: Argument,
    timeout: float = 60.0,
    check: bool = True,
    stdin: bytes | IO[bytes] | None = None,
    stdout: IO[bytes] | int | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Argument | None = None,
    pass_fds: Sequence[int] = (),
    stop: Callable[[], bool] | None = None,
    kill_descendants: bool = False,
) -> Result:
    """Run a program to its end, quietly, and give its output.

    `timeout` is in seconds. `stdin` is bytes to send, or an open file; absent, the program reads nothing.
    `stdout` sends its output to an open file instead of into the result. `env` replaces the whole
    environment. When `stop`, called five times a second, returns true, the program is ended;
    `stdin` cannot be bytes for such a program. `kill_descendants` is that of `start`.

    Raise ToolMissing when it is not there; CommandFailed when it runs out of time, and, with `check`, when
    its status is not 0.
    """
    with start(
        *argv,
        stdin=stdin,
        stdout=stdout,
        env=env,
        cwd=cwd,
        pass_fds=pass_fds,
        kill_descendants=kill_descendants,
    ) as process:
        words = tuple(str(arg) for arg in argv)
        sent = stdin if isinstance(stdin, bytes) else None
        try:
            out, err = (
                process.communicate(sent, timeout=timeout)
                if stop is None
                else _communicate(process, timeout, stop)
            )
        except subprocess.TimeoutExpired as expired:
            kill(process, descendants=kill_descendants)
            err = _remaining_stderr(process)
            raise CommandFailed(words, None, _decode_text(err), timeout=timeout) from expired
    result = Result(words, process.returncode, out or b"", _decode_text(err))
    if check and not result:
        raise CommandFailed(words, result.status, result.stderr)
    return result


def _communicate(
    process: subprocess.Popen[bytes], timeout: float, stop: Callable[[], bool]
) -> tuple[bytes | None, bytes | None]:
    """Wait for a program's end, and give its output. Raise TimeoutExpired also when `stop` is true."""
    until = time.monotonic() + timeout
    while True:
        try:
            return process.communicate(timeout=min(_ASKING, max(until - time.monotonic(), 0)))
        except subprocess.TimeoutExpired:
            if stop() or time.monotonic() >= until:
                raise


@contextlib.contextmanager
def start(
    *argv: Argument,
    stdin: bytes | IO[bytes] | int | None = None,
    stdout: IO[bytes] | int | None = None,
    stderr: IO[bytes] | int | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Argument | None = None,
    pass_fds: Sequence[int] = (),
    kill_descendants: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program for the length of a `with`; processes of it that still run at the end are killed.

    These are its process group; with `kill_descendants`, also its descendants in other sessions. bubblewrap
    needs that: its child ends with it (`--die-with-parent`) only after its set-up. A launcher must not have
    it: its monitor cleans up.

    The caller waits, with a time limit. Raise ToolMissing when the program is not there.
    """
    words = [str(arg) for arg in argv]
    words[0] = words[0] if os.sep in words[0] else which(words[0])

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words,
            stdin=_input(stdin),
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE if stderr is None else stderr,
            env=dict(os.environ, PATH=search_path()) if env is None else env,
            cwd=cwd,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )

    try:
        process = _retry_busy(start)
    except FileNotFoundError as missing:
        raise ToolMissing(words[0]) from missing
    try:
        yield process
    finally:
        if process.poll() is None:
            kill(process, descendants=kill_descendants)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _retry_busy(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a program, and again for a second while its file is open for writing (ETXTBSY, execve(2)).

    A program that another thread starts has our descriptors between fork and exec, including that of a new
    file.
    """
    until = time.monotonic() + _BUSY
    while True:
        try:
            return start()
        except OSError as error:
            if error.errno != errno.ETXTBSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def ended_within(poll: Callable[[], int | None], seconds: float) -> bool:
    """Wait for a started program, whose `poll` this is; give whether it has ended in time."""
    until = time.monotonic() + seconds
    while (running := poll() is None) and time.monotonic() < until:
        time.sleep(_POLL)
    return not running


def kill(process: subprocess.Popen[bytes], *, descendants: bool = False) -> None:
    """Kill a started program and its process group, perhaps with its descendants, and reap it.

    One that waits for a file system that has gone ends when that answers: it is left.
    """
    if descendants:
        kill_all([process.pid])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_ENDING)


def _remaining_stderr(process: subprocess.Popen[bytes]) -> bytes:
    """The standard error of a killed program."""
    try:
        return process.communicate(timeout=_ENDING)[1] or b""
    except subprocess.TimeoutExpired as expired:
        return expired.stderr or b""


def _input(stdin: bytes | IO[bytes] | int | None) -> IO[bytes] | int:
    if stdin is None:
        return subprocess.DEVNULL
    return subprocess.PIPE if isinstance(stdin, bytes) else stdin


def _decode_text(raw: bytes | None) -> str:
    return (raw or b"").decode(errors="replace")
