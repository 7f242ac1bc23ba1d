"""Starts the user's program in the foreground, as if the user had started it directly.

`process` starts programs for us and kills them after their time; this one is theirs. It gets their standard
input and output (`streams`), a terminal with its size when they sit at one, and the signals that are sent to
us. It dies when we die, however that happens, and its status becomes ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from sandwright.environment import executable_environment
from sandwright.streams import Streams, fill_standard, write_all

FORWARDED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that are meant for the program, not for us."""

ENDING = frozenset((signal.SIGTERM, signal.SIGHUP))
"""After these the program has `GRACE` seconds to end."""

GRACE = 10.0
"""Seconds, as `docker stop` gives."""

_RETRY = 0.02
_SETTLED = 0.1
"""Seconds after which all of a process group that was continued goes on."""
_PATIENCE = 2.0
_BLOCK = 65536
_PR_SET_PDEATHSIG = 1  # linux/prctl.h

Notify = Callable[[str], None]
"""Shows a message to the user."""

Deliver = Callable[[int, int], str]
"""Sends a signal (second) to the command below a program (first): returns "sent", "killed" if the command
would have died of it and was killed instead, and nothing if there is no command yet."""


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    send_signal: Deliver,
    relay: bool,
    controlling: bool = False,
    job: bool = False,
    started: Callable[[int], None] = lambda _: None,
    passed: Collection[int] = (),
    streams: Streams | None = None,
) -> int:
    """Run a program in the foreground, and give its exit status, 128 + n when signal n ended it.

    With `relay` a program on a terminal gets a new one, whose size follows ours; with `controlling` it
    is its controlling one. With `job` a program on a terminal stays in our process group, as it relays the
    terminal itself: the suspend key stops it and us, and the shell continues both. `started` is called with
    its process id. Of our descriptors it has standard input, output and errors, as `streams` gives them, and
    those of `passed`; `streams` takes the place of the usual ones. The status is 1 in place of 0 when its
    output could not be written. Raise OSError when it can't be started.
    """
    fill_standard()
    with _Signals() as signals, _terminal(relay=relay) as terminal:
        job = job and os.isatty(0) and os.isatty(1)
        streams = streams or Streams(keys=job or terminal is not None or on_terminal())
        try:
            if terminal is not None:
                terminal.controlling = controlling
            pid = _fork_and_exec(argv, environ, terminal, streams, signals=signals, passed=passed, job=job)
            started(pid)
            status = _Watching(pid, send_signal, terminal, streams, signals, job=job).until_end()
        finally:
            written = streams.close()
    return status if written else status or 1


def on_terminal() -> bool:
    """Whether standard input and output are a terminal; stop while we are in the background."""
    if not (os.isatty(0) and os.isatty(1)):
        return False
    try:
        termios.tcsetattr(
            0, termios.TCSANOW, termios.tcgetattr(0)
        )  # SIGTTOU: the program's session gets none
    except termios.error:
        return False  # no process could bring us to the foreground (EIO)
    return True


class _Signals:
    """The signals that we received, as numbers in their order, and a descriptor that becomes readable."""

    def __init__(self) -> None:
        self.read = self._write = -1
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Signals:
        self.read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (*FORWARDED, signal.SIGWINCH, signal.SIGCHLD):
            if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup: the program ignores it as well
                self._before[number] = signal.signal(number, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # the result of signal()
        signal.set_wakeup_fd(self._wakeup)
        os.close(self.read)
        os.close(self._write)

    def reset(self) -> None:
        """In a child: restore the signals that the person's shell would give it."""
        signal.set_wakeup_fd(-1)
        for number in (*self._before, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)

    def take(self) -> bytes:
        """The numbers that came since the last time."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self.read, 512)
        return b""


class _Terminal:
    """A terminal of the program's own. `master` is our end, `slave` its."""

    def __init__(self) -> None:
        self.master, self.slave = os.openpty()
        os.set_blocking(self.master, False)
        self.controlling = False
        self._typed = b""
        self.resize()

    def resize(self) -> None:
        """Give it the size of ours."""
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def give(self) -> None:
        """In the child: be its terminal, in place of ours."""
        if self.controlling:
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        for descriptor in filter(os.isatty, range(3)):
            os.dup2(self.slave, descriptor)

    def selected(self) -> tuple[list[int], list[int]]:
        """The descriptors to wait for: to read, and to write. No key is read before the last has gone on."""
        return ([self.master], [self.master]) if self._typed else ([self.master, 0], [])

    def copy(self, ready: Collection[int], writable: Collection[int]) -> None:
        """Pass on waiting data. Raise EOFError when the program's side, or ours, is closed."""
        if 0 in ready:
            self._typed = os.read(0, _BLOCK)
            if not self._typed:
                raise EOFError
        if self._typed and (0 in ready or self.master in writable):
            with contextlib.suppress(BlockingIOError):
                self._typed = self._typed[os.write(self.master, self._typed) :]
        if self.master in ready:
            self.show()

    def show(self) -> bool:
        """Write the program's output; false when there is none. Raise EOFError at its end."""
        try:
            block = os.read(self.master, _BLOCK)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:  # Linux' error when the other side is not open anywhere
                raise
            block = b""
        if not block:
            raise EOFError
        write_all(1, block)
        return True


@contextlib.contextmanager
def _terminal(*, relay: bool) -> Iterator[_Terminal | None]:
    """The program's terminal, while ours passes every key on as it is; None without one."""
    if not relay or not (os.isatty(0) and os.isatty(1)):
        yield None
        return
    before = termios.tcgetattr(0)
    terminal = _Terminal()
    termios.tcsetattr(terminal.slave, termios.TCSANOW, before)
    try:
        tty.setraw(0, termios.TCSADRAIN)
        yield terminal
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        os.close(terminal.master)


def _fork_and_exec(
    argv: Sequence[str],
    environ: Mapping[str, str],
    terminal: _Terminal | None,
    streams: Streams,
    *,
    signals: _Signals,
    passed: Collection[int],
    job: bool,
) -> int:
    """Fork and execute. An error in the child comes back through a pipe."""
    read, write = os.pipe2(os.O_CLOEXEC)
    die_with = _death_signal()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        if not job:
            os.setsid()  # signals of a terminal reach us alone, and we pass them on
        die_with(parent)
        signals.reset()
        _withhold(passed)
        _become(argv, environ, terminal, streams, write)
    os.close(write)
    streams.started()
    if terminal is not None:
        os.close(terminal.slave)
    with os.fdopen(read, "rb") as pipe:
        number = pipe.read()
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)), argv[0])
    return pid


def _withhold(passed: Collection[int]) -> None:
    """Close all but `passed` when the program starts: descriptors of our starter are not for it."""
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - numbers, not paths
        with contextlib.suppress(OSError):  # the listing's own has gone
            os.set_inheritable(int(name), int(name) < 3 or int(name) in passed)


def _become(
    argv: Sequence[str],
    environ: Mapping[str, str],
    terminal: _Terminal | None,
    streams: Streams,
    write: int,
) -> None:
    """Execute the program; never returns. An error is written as a number (errno(3))."""
    try:
        if terminal is not None:
            terminal.give()
        streams.become()
        os.execve(argv[0], list(argv), executable_environment(environ))  # noqa: S606 - the purpose of this module
    except OSError as error:
        os.write(write, str(error.errno).encode())
    finally:
        os._exit(125)


def _death_signal() -> Callable[[int], None]:
    """A function for the child that asks the kernel to kill it when we are gone (prctl(2); Linux only)."""
    if sys.platform != "linux":
        return lambda _: None
    prctl = ctypes.CDLL(None).prctl

    def ask(parent: int) -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # gone before the call
            os._exit(125)

    return ask


def _is_stopped(pid: int) -> bool:
    """Whether a child is stopped (proc_pid_stat(5)). Raise ProcessLookupError."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None


class _Watching:
    """Passes data on until the program has ended."""

    def __init__(
        self,
        pid: int,
        send_signal: Deliver,
        terminal: _Terminal | None,
        streams: Streams,
        signals: _Signals,
        *,
        job: bool,
    ) -> None:
        self._pid = pid
        self._job = job
        self._deliver = send_signal
        self._terminal = terminal
        self._streams = streams
        self._signals = signals
        self._pending: list[tuple[int, float]] = []
        self._deadline: float | None = None
        self._ended_by = 0
        self._copies = terminal is not None

    def until_end(self) -> int:
        """The program's exit status."""
        while True:
            ended, status = os.waitpid(self._pid, os.WNOHANG | (os.WUNTRACED if self._job else 0))
            if ended and os.WIFSTOPPED(status):
                self._stop()
            elif ended:
                self._drain_terminal()
                code = os.waitstatus_to_exitcode(status)
                if self._ended_by and code in (-signal.SIGKILL, 128 + signal.SIGKILL):
                    return 128 + self._ended_by
                return code if code >= 0 else 128 - code
            self._wait()

    def _stop(self) -> None:
        """Stop as the program did, for the shell to continue both; not if it goes on already."""
        time.sleep(_SETTLED)
        with contextlib.suppress(ProcessLookupError):
            if _is_stopped(self._pid):
                signal.raise_signal(signal.SIGTSTP)

    def _wait(self) -> None:
        """Wait for something to come, and deal with it."""
        reads, writes = self._terminal.selected() if self._terminal and self._copies else ([], [])
        more, others = self._streams.selected()
        ready, writable, _ = select.select(
            [self._signals.read, *reads, *more], [*writes, *others], [], self._timeout()
        )
        if self._signals.read in ready:
            for number in self._signals.take():
                self._signalled(number)
        if self._terminal and self._copies:
            try:
                self._terminal.copy(ready, writable)
            except (EOFError, OSError):
                self._copies = False  # one side is closed: wait for the end
        self._streams.copy(ready, writable)
        self._deliver_pending()
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._kill()

    def _timeout(self) -> float | None:
        if self._pending:
            return _RETRY
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def _signalled(self, number: int) -> None:
        if number == signal.SIGWINCH and self._terminal is not None:
            self._terminal.resize()
        elif number != signal.SIGCHLD:
            self._pending.append((number, time.monotonic() + _PATIENCE))
            if number in ENDING and self._deadline is None:
                self._deadline = time.monotonic() + GRACE
                self._ended_by = number

    def _deliver_pending(self) -> None:
        """Pass signals on; one that finds no command for long, since nothing has started, ends the start."""
        while self._pending:
            number, until = self._pending[0]
            delivered = self._deliver(self._pid, number)
            if delivered == "killed":
                self._ended_by = number
            elif not delivered:
                if time.monotonic() < until:
                    return
                if number != signal.SIGWINCH:
                    self._ended_by = self._ended_by or number
                    self._kill()
            self._pending.pop(0)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._deadline = None

    def _drain_terminal(self) -> None:
        """Show the program's last output."""
        with contextlib.suppress(EOFError, OSError):
            while self._terminal is not None and self._copies and self._terminal.show():
                pass
