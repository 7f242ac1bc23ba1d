"""Runs in the background, without the terminal: `run --detach`, and the logs of their output.

A detached run is a child in a new session (setsid(2)), which supervises its launcher. Its output goes to a
file in the cache, which no sandbox sees: `logs/NAME.SESSION`. Its denials go to `logs/NAME.SESSION.denials`,
and its exit status to `logs/NAME.SESSION.status`: the log could not be trusted for it, because the command
writes it. The files are kept for at most a week after the run. With `--tty` the command has a terminal
(`session.held_terminal`).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import BinaryIO, TextIO

from sandwright import user_dirs
from sandwright.errors import UsageError
from sandwright.lazy import load
from sandwright.locking import exclusive, lock_within
from sandwright.session import state
from sandwright.session.live_denials import DenialReader
from sandwright.session.request import RunRequest
from sandwright.session.run import LAUNCHER_FAILED
from sandwright.session.session_record import SessionRecord
from sandwright.signalling import kill, liveness
from sandwright.visible import notify, one_line, repeat

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_ID = re.compile(r"[0-9a-f]{16}")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC
_KEEP = 7 * 24 * 3600.0
_POLL = 0.02
"""Seconds."""
_DENIALS = ".denials"
_STATUS = ".status"
_ENDING = (signal.SIGINT, signal.SIGTERM)
_REPORTS = b"sandwright: "
_ENDED = "the command ended with status"
_TERMINAL = "sandwright.session.held_terminal"


def start(request: RunRequest, run: Callable[[], int], write: Callable[[str], None]) -> int:
    """Start the run of a request in the background; give an exit status.

    It is 0 once the command has been executed; then the session's name or ID is printed. Otherwise it is that
    of a run in the foreground: 127 for a missing command, 125 if nothing was started. Until then, messages of
    the start also go to standard error. Raise UsageError for a name that is invalid or in use, HostError if
    the log can't be written.
    """
    request.session = state.new_id()
    address = request.name or request.session
    _check_name(request.name)
    with exclusive(Path(_logs(), address), within=0) as free:
        if not free:
            raise UsageError(f"another run named {address} is starting")
        if request.name and any(each.name == request.name for each in _running()):
            raise UsageError(f"a session named {address} runs; stop it with `sandwright stop {address}`")
        _sweep_logs()
        log = Path(_logs(), f"{address}.{request.session}")
        request.denials_log = str(_denials_of(log))
        started, request.started = os.pipe()
        run = _on_terminal(run, request.session) if request.tty else run
        status = _fork(started, request.started, run, log)
    if status == 0:
        write(address)
    else:
        _remove_log(log)
    return status


def _on_terminal(run: Callable[[], int], session: str) -> Callable[[], int]:
    """A function that runs it on a terminal as large as this one. Raise UsageError on other systems."""
    if sys.platform != "linux":
        raise UsageError("--tty: only Linux reports the process at the other end of a socket (SO_PEERCRED)")
    hold, size_of = map(load, (f"{_TERMINAL}:run_on_terminal", f"{_TERMINAL}:window_size"))
    size = next(filter(None, map(size_of, range(3))), b"")
    return partial(hold, run, state.terminal_of(session), size)


def _fork(started: int, starts: int, run: Callable[[], int], log: Path) -> int:
    """Run in a child; give 0 when it has executed its command. Close both ends of that pipe."""
    sys.stdout.flush()
    sys.stderr.flush()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # until they can be passed on
    file = os.open(log, _NEW, 0o600)
    held = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    lock_within(held, 0)  # until the child has ended
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(started)
        os._exit(_run_in_background(run, file, _status_of(log)))
    for each in (file, held, starts):
        os.close(each)
    with (
        open(started, "rb", buffering=0) as pipe,
        log.open("rb") as output,
        _passing_signals(child, mask) as received,
    ):
        status = _wait_for_start(child, pipe, output)
    if received:
        return 128 + received[0]
    if status is not None and status < 0:
        notify(f"the start was ended by signal {-status}")
        return LAUNCHER_FAILED
    return 0 if status is None else status or LAUNCHER_FAILED


@contextlib.contextmanager
def _passing_signals(child: int, mask: Iterable[int]) -> Iterator[list[int]]:
    """End the child when this process is to end; yield a list of the signals that came.

    `mask` is the signal mask from then on.
    """
    received: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)

    before = {number: signal.signal(number, end) for number in _ENDING}
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run_in_background(run: Callable[[], int], log: int, status_file: str) -> int:
    """The child: give its exit status, and write it to a file."""
    os.setsid()
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for stream in (1, 2):
        os.dup2(log, stream)
    status = LAUNCHER_FAILED
    try:
        status = run()
        notify(f"{_ENDED} {status}")
        user_dirs.write(status_file, str(status).encode())
    except BaseException:  # noqa: BLE001 - the child never returns into its copy of the caller
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return status


def _wait_for_start(child: int, started: BinaryIO, log: BinaryIO) -> int | None:
    """Wait until the command has been executed, and give None.

    Give the exit status if the run ended before that.
    """
    os.set_blocking(started.fileno(), False)
    held: list[bytes] = []
    rest = b""
    while True:
        begun = bool(started.read(1))
        ended, status = (0, 0) if begun else os.waitpid(child, os.WNOHANG)
        begun = begun or (bool(ended) and bool(started.read(1)))  # it has ended since
        *lines, rest = (rest + log.read()).split(b"\n")
        for line in (each.removesuffix(b"\r") for each in lines):
            _show(line) if line.startswith(_REPORTS) else held.append(line)
        if begun:
            return None
        if ended:
            for line in held:
                _show(line)
            return os.waitstatus_to_exitcode(status)
        time.sleep(_POLL)


def _show(line: bytes) -> None:
    if not line.startswith(_REPORTS + _ENDED.encode()):
        repeat(line.decode(errors="surrogateescape"))


def _check_name(name: str) -> None:
    if name and (not _NAME.fullmatch(name) or _ID.fullmatch(name)):
        raise UsageError(f"{name!r} is no name: use letters, digits, - and _, but no 16 hexadecimal digits")


def _running() -> Iterator[SessionRecord]:
    return (each for each in state.read_all() if liveness(each.process) == "running")


def find_running(address: str) -> SessionRecord:
    """The running session of a name or an ID. Raise UsageError where there is none."""
    for each in _running():
        if address in (each.session, each.name):
            return each
    raise UsageError(f"no session {address} runs; `sandwright status` lists those that do")


def stop(address: str, within: float) -> bool:
    """End a session: SIGTERM, and SIGKILL after some seconds. Give whether SIGTERM was enough.

    Raise UsageError where no such session runs.
    """
    record = find_running(address)
    for number, seconds in ((signal.SIGTERM, within), (signal.SIGKILL, 5.0)):
        kill(record.pid, number, sure=lambda: liveness(record.process) == "running")
        deadline = time.monotonic() + seconds
        while liveness(record.process) == "running" and time.monotonic() < deadline:
            time.sleep(_POLL)
        if liveness(record.process) != "running":
            return number == signal.SIGTERM
    raise user_dirs.error(f"session {address} (PID {record.pid}) does not end")


def copy_log(address: str, output: BinaryIO, *, follow: bool) -> int | None:
    """Print the output of a detached run; with `follow`, until it has ended.

    Give the exit status, from its file; None if the run goes on or was killed. Raise UsageError where there
    is no log.
    """
    log = find_log(address)
    with log.open("rb") as file:
        while True:
            ended = _is_written(log)
            while chunk := file.read(1 << 16):
                output.write(chunk)
            output.flush()
            if ended or not follow:
                return _read_status(log) if ended else None
            time.sleep(_POLL * 5)


def copy_denials(address: str, output: TextIO, *, follow: bool) -> None:
    """Print the denials of a detached run; with `follow` as they happen, until it has ended.

    An empty name means the newest run. Raise UsageError where there is no log, HostError for a damaged one.
    """
    log = find_log(address)
    reader = DenialReader(_denials_of(log))
    while True:
        ended = _is_written(log)
        for line in reader.new_lines() if follow else reader.all_lines():
            output.write(f"{one_line(line)}\n")
        output.flush()
        if ended or not follow:
            return
        time.sleep(_POLL * 5)


def find_log(address: str) -> Path:
    """The newest log of a name or an ID; without one, of all. Raise UsageError where there is none."""
    found = [each for each in _all_logs() if not address or address in each.name.split(".")]
    if not found and any(address in (each.session, each.name) for each in _running()):
        raise UsageError(
            f"session {address} runs in the foreground: it has no log. Start it with `run --detach`, or with"
            " `run --denials FILE`, which writes denials as they happen"
        )
    if not found:
        raise UsageError(f"no detached run {address} has a log" if address else "no detached run has a log")
    return max(found, key=lambda each: each.lstat().st_ctime)


def _denials_of(log: Path) -> Path:
    """The file beside a log with the run's denials (`session.live_denials`); not there without any."""
    return Path(f"{log}{_DENIALS}")


def _status_of(log: Path) -> str:
    return f"{log}{_STATUS}"


def _read_status(log: Path) -> int | None:
    try:
        return int(Path(_status_of(log)).read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _all_logs() -> list[Path]:
    return [each for each in Path(_logs()).iterdir() if each.suffix not in (_DENIALS, _STATUS, ".part")]


def _remove_log(log: Path) -> None:
    """Remove a log. The files beside it are removed first, so that none is left without its log."""
    _denials_of(log).unlink(missing_ok=True)
    Path(_status_of(log)).unlink(missing_ok=True)
    log.unlink()


def _is_written(log: Path) -> bool:
    """Whether the process that writes a log has ended; it may outlive its session."""
    with log.open("rb") as file:
        return lock_within(file.fileno(), 0)


def _logs() -> str:
    return user_dirs.private(f"{user_dirs.private(user_dirs.cache())}/logs")


def _sweep_logs() -> None:
    """Remove the logs of runs that ended a week ago."""
    for log in _all_logs():
        with contextlib.suppress(FileNotFoundError):  # another run sweeps too
            old = time.time() - log.lstat().st_mtime > _KEEP
            if old and _is_written(log):
                _remove_log(log)
