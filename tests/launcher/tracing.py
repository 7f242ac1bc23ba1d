"""Runs a program under ptrace(2), and calls a function at one of its system calls.

Only the named programs are traced, with their children: any other is let go when it is executed, so that
runtimes, which trace programs themselves, run as usual.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

TRACEME, SYSCALL, DETACH, SETOPTIONS, GETEVENTMSG = 0, 24, 17, 0x4200, 0x4201  # linux/ptrace.h
OPTIONS = 1 | 2 | 4 | 8 | 16  # of these: system calls are marked, fork, vfork, clone and exec are reported
FORKS, EXEC = (1, 2, 3), 4
WALL = 0x40000000
STEADY = 0.1
"""Seconds without a stop after which a run counts as waiting."""
WAKE = 0.05
SUBREAPER = 36  # linux/prctl.h

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


def become_subreaper(*, yes: bool = True) -> None:
    """Make this process the parent of all orphans below it (prctl(2)), or undo that."""
    _libc.prctl(SUBREAPER, int(yes), 0, 0, 0)


def _ptrace(request: int, process: int, data: int = 0) -> bool:
    return int(_libc.ptrace(request, process, None, data)) == 0


@dataclass
class Traced:
    """A run. `processes` are the traced ones, in the order of their start, `left` the others."""

    main: int = 0
    stops: int = 0
    processes: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    acted: int = 0
    """The number of the stop; -1 if the run was waiting, 0 if it had no stop left."""
    waits: bool = False
    status: int | None = None


@dataclass
class _Tracer:
    programs: Collection[str]
    at: int
    act: Callable[[Traced], bool]
    run: Traced
    held: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    woken: set[int] = field(default_factory=set)
    acted: float = 0.0

    def try_to_act(self, stop: int) -> None:
        if not self.run.acted and self.act(self.run):
            self.run.acted, self.acted = stop, time.monotonic()

    def stopped(self, process: int, status: int) -> None:
        number, event = os.WSTOPSIG(status), status >> 16
        send_signal = 0
        if process not in self.run.processes:
            self.held.add(process)
            self.run.processes.append(process)
            _ptrace(SETOPTIONS, process, OPTIONS)
        elif event in FORKS:
            message = ctypes.c_ulong()
            if _ptrace(GETEVENTMSG, process, ctypes.addressof(message)):
                self.held |= {message.value} - self.gone
        elif event == EXEC and not _is_one(process, self.programs):
            self.run.left.append(process)
            self.run.processes[:] = [each for each in self.run.processes if each != process]
            self.let_go(process)
            return
        elif number == signal.SIGTRAP | 0x80:
            self.run.stops += 1
            if self.run.stops >= self.at:
                self.try_to_act(self.run.stops)
        elif not event and not (self.run.acted and number == signal.SIGSTOP):
            send_signal = number
        # The action is done: the rest goes on by itself.
        if self.run.acted:
            self.let_go(process, send_signal)
        else:
            _ptrace(SYSCALL, process, send_signal)

    def let_go(self, process: int, send_signal: int = 0) -> None:
        """Its stop may be that of a call, and the SIGSTOP that interrupted the call may still arrive.

        A process that was killed meanwhile can't be let go, and its parent learns of its end after this
        process.
        """
        if not _ptrace(DETACH, process, send_signal):
            return
        if process in self.woken:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
        self.end(process)

    def end(self, process: int) -> None:
        self.held.discard(process)
        self.gone.add(process)

    def let_all_go(self) -> None:
        """Wake the sleeping processes, and let all go."""
        if self.run.acted and time.monotonic() - self.acted > WAKE:
            self.acted = time.monotonic()
            for process in self.held:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGSTOP)
                    self.woken.add(process)


def run(
    argv: tuple[str, ...],
    environment: Mapping[str, str],
    directory: Path,
    output: Path,
    *,
    programs: Collection[str],
    at: int,
    act: Callable[[Traced], bool],
    steady: Callable[[], bool],
    limit: float = 60.0,
) -> Traced:
    """Run it to its end, and call `act` before stop number `at` goes on, or later, until it returns true.

    Stops are before and after system calls. A run that waits without a stop while `steady` holds never gets
    there: `act` is called then, too. Raise TimeoutError after `limit` seconds without any activity (a busy
    machine is slow), or after ten times as many, with the reason why each of its processes waits.
    """
    found = Traced(_start(argv, environment, directory, output))
    tracer = _Tracer(programs, at, act, found, {found.main})
    quiet, idle = time.monotonic(), 0
    last, done = quiet + 10 * limit, ""
    end = quiet + limit
    while found.status is None or tracer.held:
        process, status = os.waitpid(-1, WALL | os.WNOHANG)
        if process == 0:
            idle += 1
            now = time.monotonic()
            if now - quiet > STEADY and steady():
                found.waits = True
                tracer.try_to_act(-1)
            tracer.let_all_go()
            if now > end:
                alive = sorted(_with_descendants(tracer.held.union(found.processes)))
                before, done = done, did(alive)
                if done == before or now > last:
                    told = "\n    ".join(map(state, alive))
                    raise TimeoutError(f"still runs, held {tracer.held}, {found}:\n    {told}")
                end = now + limit
            if idle > 20:
                time.sleep(0.0002)
            continue
        idle, quiet = 0, time.monotonic()
        if os.WIFSTOPPED(status):
            tracer.stopped(process, status)
            continue
        tracer.end(process)
        if process == found.main:
            found.status = os.waitstatus_to_exitcode(status)
    return found


def _start(argv: tuple[str, ...], environment: Mapping[str, str], directory: Path, output: Path) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        os.chdir(directory)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(written, 1)
        os.dup2(written, 2)
        os.closerange(3, 256)
        _ptrace(TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.execvpe(argv[0], argv, environment)
    finally:
        os._exit(126)


def descendants(process: int) -> Iterator[int]:
    """The processes below it, including ended ones."""
    for task in Path(f"/proc/{process}/task").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from descendants(child)


def _with_descendants(processes: Collection[int]) -> set[int]:
    return {*processes, *(below for each in processes for below in descendants(each))}


def did(processes: Collection[int]) -> str:
    """The number of times that each process has given up the processor: constant while nothing happens."""
    told = []
    for each in processes:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{each}/status").read_text().splitlines()
            told += [str(each), *(line for line in lines if "ctxt_switches" in line)]
    return "\n".join(told)


def state(process: int) -> str:
    """The state of a process, and the reason for its wait: its state, its call, its place in the kernel."""
    own, told = Path(f"/proc/{process}"), [f"process {process}"]
    for name in ("cmdline", "status", "wchan", "syscall", "stack"):
        with contextlib.suppress(OSError):
            said = (own / name).read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if name == "status":
                keys = ("State", "PPid", "TracerPid", "SigPnd", "ShdPnd", "SigBlk")
                said = " ".join(line for line in said.splitlines() if line.partition(":")[0] in keys)
            told.append(f"{name}: {' '.join(said.split())[:400]}")
    return ", ".join(told)


def _is_one(process: int, programs: Collection[str]) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/exe").readlink().name in programs
    return False
