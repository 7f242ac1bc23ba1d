"""Supervises one proxy: the parent of squid, and the relay to it from sandboxes' network namespaces.

`sandwright.egress.start` starts it as a program with a directory. Its standard input is a pipe whose other
end the session holds: the first line is its settings, as JSON, and the end of input, however the session
ended, ends everything here. On its standard output it writes `ready`, or an error, in one line. If this
process is killed, the kernel kills squid (PR_SET_PDEATHSIG), and the session removes the directory.

Launchers ask through the pipe `ask` in the directory: a line `way-NAME PID up|wait`, where `way-NAME` is a
directory that the launcher made beside it, with a pipe `answer`, and PID is a process in the sandbox's
network namespace. The supervisor listens there on the proxy's usual port, until that process ends, and
answers `ok`, or an error. `up`: the supervisor must bring the loopback interface up there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from sandwright import process
from sandwright.documents import strictjson
from sandwright.documents.record import record_of
from sandwright.egress.inspection import FOLDER, InspectionSettings, running_inspection
from sandwright.egress.namespaces import listen_in
from sandwright.egress.relay import Relay
from sandwright.errors import HostError, SandwrightError
from sandwright.mcp.rules import FilteredHost

ASK, ANSWER = "ask", "answer"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - squid's own names, see `_forget_memory`

_ASKED = re.compile(rb"(way-[A-Za-z0-9]{1,64}) ([0-9]{1,10}) (up|wait)")
_TICK_MS = 500
_MEASURING = 0.5
"""Seconds between two checks of the size of the logs."""

MAX_LOGS = 256 << 20
"""Bytes of the logs of a proxy, which are in `/run` or the user's runtime directory: mostly memory."""


@dataclass(frozen=True)
class SupervisorConfiguration:
    """The settings of one supervisor.

    `argv` starts squid in the foreground; `inside` is its address in sandboxes. squid refuses connections
    that do not begin with `greeting`. `max_logs` limits the bytes of the logs; the proxy stops when they
    reach it.
    """

    argv: tuple[str, ...]
    service: str
    host: str
    port: int
    greeting: str
    inside: tuple[str, int]
    log: str
    keep_log: str | None
    patience: float
    inspection: InspectionSettings | None = None
    max_logs: int = MAX_LOGS

    @classmethod
    def from_json(cls, text: bytes) -> SupervisorConfiguration:
        """Decode the output of `to_json`."""
        fields: dict[str, Any] = strictjson.loads_record(text)
        host, port = fields["inside"]
        argv, inspection = tuple(fields["argv"]), fields["inspection"]
        if inspection is not None:
            hosts = tuple((name, number) for name, number in inspection["hosts"])
            filtered = tuple(record_of(FilteredHost, each) for each in inspection["filtered"])
            words, filter_words = (tuple(inspection[each]) for each in ("argv", "filter_argv"))
            inspection = InspectionSettings(words, hosts, inspection["opener"], filtered, filter_words)
        return cls(**{**fields, "argv": argv, "inside": (host, port), "inspection": inspection})

    def to_json(self) -> bytes:
        """One line, for the supervisor's standard input."""
        return json.dumps(asdict(self)).encode() + b"\n"


class _Started(Protocol):
    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...


def main() -> None:
    """Supervise the proxy that standard input describes, until the input ends."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o077)
    directory = Path(sys.argv[-1])
    settings = SupervisorConfiguration.from_json(_read_line(sys.stdin.fileno()))
    try:
        with (
            _squid(directory, settings) as squid,
            contextlib.closing(_Supervisor(directory, settings)) as supervisor,
            supervisor.inspection() as haproxy,
        ):
            _notify("ready")
            supervisor.keep(squid, *haproxy)
    except (SandwrightError, OSError) as fault:
        _notify(" ".join(str(fault).split()))
    finally:
        clean_up(directory, settings.log, settings.keep_log)


def clean_up(directory: Path, log: str, keep_log: str | None) -> None:
    """Remove the files of a proxy, and move its log to its final path, following no link."""
    if keep_log is not None:
        partial = Path(f"{keep_log}.part")
        with contextlib.suppress(OSError), open(log, "rb", opener=_plainly) as had:
            partial.unlink(missing_ok=True)
            with partial.open("xb") as copy:
                shutil.copyfileobj(had, copy)
            partial.replace(keep_log)
    shutil.rmtree(directory, ignore_errors=True)


def _plainly(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _read_line(descriptor: int) -> bytes:
    """The first line, byte for byte, so that nothing behind it is taken."""
    text = b""
    while not text.endswith(b"\n"):
        byte = os.read(descriptor, 1)
        if not byte:
            raise SystemExit(1)
        text += byte
    return text


def _notify(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), f"{text}\n".encode())


@contextlib.contextmanager
def _squid(directory: Path, settings: SupervisorConfiguration) -> Iterator[_Started]:
    """Squid, once it answers as it was rendered."""
    with contextlib.ExitStack() as stack:
        error_log = stack.enter_context((directory / "squid.err").open("wb"))
        stack.callback(_forget_memory, settings.service)
        squid = stack.enter_context(
            process.start(*settings.argv, stdout=error_log, stderr=error_log, cwd="/")
        )
        until = time.monotonic() + settings.patience
        greeting = settings.greeting.encode()
        while not (_is_at_port(squid.pid, settings) and answers(settings.host, settings.port, greeting)):
            if squid.poll() is not None:
                raise HostError(f"squid ended when it was started: {_last_message(directory)}")
            if time.monotonic() > until:
                raise HostError(
                    f"squid did not answer within {settings.patience:g} s: {_last_message(directory)}"
                )
            time.sleep(0.003)
        _forget_memory(settings.service)
        yield squid


def _is_at_port(squid: int, settings: SupervisorConfiguration) -> bool:
    """Whether squid, or at least no other user, listens at its port, which any user can take before squid.

    Only Linux reports it; elsewhere True.
    """
    address = int.from_bytes(socket.inet_aton(settings.host), sys.byteorder)
    try:
        listeners = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
        status = Path(f"/proc/{squid}/status").read_text()
    except FileNotFoundError:
        return sys.platform != "linux"
    users = {0, os.geteuid(), *map(int, re.findall(r"\d+", status.partition("\nUid:")[2].partition("\n")[0]))}
    found = (line.split() for line in listeners)
    return any(
        (each[1], each[3]) == (f"{address:08X}:{settings.port:04X}", "0A") and int(each[7]) in users
        for each in found
    )


def answers(host: str, port: int, greeting: bytes) -> bool:
    """Whether squid refuses TRACE, which our rules refuse under every policy. That request is in no log.

    A request that it answered before is in its log then: it has one thread.
    """
    request = b"TRACE http://ready.sandwright.invalid/ HTTP/1.1\r\nHost: ready.sandwright.invalid\r\n\r\n"
    try:
        with socket.create_connection((host, port), timeout=1) as connection:
            connection.sendall(greeting + request)
            response = b""
            while b"\r\n\r\n" not in response and (block := connection.recv(4096)):
                response += block
    except OSError:
        return False
    return response.startswith(b"HTTP/1.1 403 ") and b"ERR_SANDWRIGHT_METHOD" in response


def _last_message(directory: Path) -> str:
    """The last message of squid about why it can't run, without passwords in quoted lines."""
    for name in ("squid.err", "squid/cache.log"):
        with contextlib.suppress(OSError):
            text = (directory / name).read_text(errors="replace")
            found = [line for line in text.splitlines() if re.search("FATAL|ERROR|Bungled|Cannot", line)]
            if found or text.strip():
                return re.sub(r"login=\S+", "login=…", (found or text.strip().splitlines())[-1])
    return "it said nothing"


def _forget_memory(service: str) -> None:
    """Remove the names of the memory that squid shares with processes it doesn't have; it stays mapped."""
    for path in SHARED_MEMORY.glob(f"{service}-*.shm"):
        path.unlink(missing_ok=True)


class _Supervisor:
    """Waits for the session's end, squid's end, requests of launchers, and data of sandboxes."""

    def __init__(self, directory: Path, settings: SupervisorConfiguration) -> None:
        self._directory, self._settings = directory, settings
        _raise_limit()
        opened = settings.inspection.opened(directory) if settings.inspection else None
        self._relay = Relay(settings.host, settings.port, settings.greeting.encode(), opened)
        self._ask = os.open(directory / ASK, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._sandboxes: dict[int, socket.socket] = {}
        self._measured = 0.0
        self._poll = select.poll()
        for descriptor in (sys.stdin.fileno(), self._ask, self._relay.fileno()):
            self._poll.register(descriptor, select.POLLIN)

    @contextlib.contextmanager
    def inspection(self) -> Iterator[tuple[_Started, ...]]:
        """The inspecting proxy, where the policy has one, and the relay's ways from and to it."""
        settings = self._settings.inspection
        if settings is None:
            yield ()
            return
        from_proxy, from_launchers = _loopback_listener(), _loopback_listener()
        self._relay.listen(from_proxy, "proxy")
        self._relay.listen(from_launchers, "launcher")
        # Launchers that say the greeting themselves must not come to squid past the relay.
        greeting = f"{from_launchers.getsockname()[1]}\n{self._settings.greeting}"
        (self._directory / "greeting").write_text(greeting)
        port = from_proxy.getsockname()[1]
        with running_inspection(self._directory, settings, port, self._settings.patience) as programs:
            yield programs

    def keep(self, *programs: _Started) -> None:
        """Serve until the session or one of the programs ends, or their logs are too long."""
        ended = [os.pidfd_open(each.pid) for each in programs]
        for descriptor in ended:
            self._poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in self._poll.poll(0 if self._relay.busy else _TICK_MS):
                if descriptor in (sys.stdin.fileno(), *ended):
                    return
                if descriptor == self._ask:
                    self._read_questions()
                elif descriptor in self._sandboxes:
                    self._remove_sandbox(descriptor)
            self._relay.turn()
            if self._has_long_logs():
                self._halt(ended)
                return

    def _has_long_logs(self) -> bool:
        if time.monotonic() < self._measured + _MEASURING:
            return False
        self._measured = time.monotonic()
        return proxy_file_bytes(self._directory) > self._settings.max_logs

    def _halt(self, programs: list[int]) -> None:
        """Let nothing pass, because it could not be logged. The session reads the logs at its end."""
        self.close()
        for each in programs:
            signal.pidfd_send_signal(each, signal.SIGKILL)
        while os.read(sys.stdin.fileno(), 4096):
            """Until the session ends."""

    def close(self) -> None:
        """Close every way in."""
        if self._ask < 0:
            return
        for descriptor in list(self._sandboxes):
            self._remove_sandbox(descriptor)
        self._relay.close()
        os.close(self._ask)
        self._ask = -1

    def _read_questions(self) -> None:
        for line in os.read(self._ask, 4096).splitlines():
            found = _ASKED.fullmatch(line)
            if found:
                self._question(found[1].decode(), int(found[2]), up=found[3] == b"up")

    def _question(self, way: str, pid: int, *, up: bool) -> None:
        try:
            descriptor = os.pidfd_open(pid)
            listener = listen_in(pid, *self._settings.inside, raise_loopback=up)
        except (SandwrightError, OSError) as fault:
            self._write_answer(way, " ".join(str(fault).split()))
            return
        self._sandboxes[descriptor] = listener
        self._poll.register(descriptor, select.POLLIN)
        self._relay.listen(listener)
        self._write_answer(way, "ok")

    def _write_answer(self, way: str, text: str) -> None:
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            answer = os.open(self._directory / way / ANSWER, flags)
            os.write(answer, f"{text}\n".encode())
            os.close(answer)

    def _remove_sandbox(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        self._relay.forget(self._sandboxes.pop(descriptor))
        os.close(descriptor)


def proxy_file_bytes(directory: Path) -> int:
    """The bytes of the files of a proxy, most of them its logs."""
    total = 0
    for folder in (directory, directory / "squid", directory / FOLDER):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            total += sum(each.stat(follow_symlinks=False).st_size for each in entries)
    return total


def _loopback_listener() -> socket.socket:
    """A listening socket on this machine's loopback; clients have to know a secret."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    return listener


def _raise_limit() -> None:
    """Room for the relay's connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft != resource.RLIM_INFINITY and soft < raised:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
