"""What a run writes to its audit log: its start, what was refused and called while it goes on, its end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sandwright.session.audit import AuditLog
from sandwright.session.bridged import BridgeLog
from sandwright.session.denial_context import DenialContext
from sandwright.session.denials import Denial, explain_denial
from sandwright.session.events import (
    BridgedCall,
    DeniedHost,
    RunCalled,
    RunDenied,
    RunEnded,
    RunExecuted,
    RunStarted,
    decode_events,
    read_events,
)

LOOK = 0.2
"""Seconds between two looks at what proxy, bridge and launcher have reported."""

_MOST_HOSTS = 1000
"""Different hosts that are written down; the sandbox chooses them."""

Hosts = Callable[[], Sequence[RunDenied]]


class AuditWriter:
    """The lines of one run in an open log."""

    def __init__(
        self, log: AuditLog, session: str, context: DenialContext, notify: Callable[[str], None]
    ) -> None:
        log.session = session
        self._log, self._context, self._notify = log, context, notify
        self._bridge: BridgeLog | None = None
        self._proxied: Hosts | None = None
        self._hosts: set[str] = set()
        self._journal, self._read = -1, 0
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def open_journal(self) -> str:
        """The name of memory of ours, in which a native launcher reports refusals at once."""
        self._journal = os.memfd_create("refused", os.MFD_CLOEXEC)
        return f"/proc/{os.getpid()}/fd/{self._journal}"

    def begin(self, started: RunStarted, bridge: BridgeLog | None, proxied: Hosts | None) -> None:
        """Write that it starts, and what happens from now on. Raise HostError, and nothing is started."""
        self._bridge, self._proxied = bridge, proxied
        self._log.write(
            "start",
            method=started.method,
            project=started.project,
            command=started.command,
            policy=started.policy,
            uid=started.uid,
        )
        self._thread = threading.Thread(target=self._follow_run, daemon=True)
        self._thread.start()

    def finish(self, ended: RunEnded, hosts: Sequence[RunDenied], refusals: Path) -> None:
        """Write the end of the run, and report the head. A failed write is reported.

        `hosts` is all that the proxy refused: its log went with it. The launcher wrote `refusals`.
        """
        if self._thread is None:
            return
        self._over.set()
        self._thread.join()
        self._try_write(self._write_new_events)
        self._try_write(lambda: self._refused_by_proxy(hosts))
        self._try_write(lambda: self._write_totals(hosts, refusals))
        self._try_write(lambda: self._write_end(ended))
        self._log.close()
        if self._journal >= 0:
            os.close(self._journal)

    def _follow_run(self) -> None:
        while not self._over.wait(LOOK):
            try:
                self._write_new_events()
                self._refused_by_proxy(self._proxied() if self._proxied else ())
            except Exception:  # noqa: BLE001 - it is retried, and a failure at the end is reported
                return

    def _try_write(self, work: Callable[[], None]) -> None:
        """A failed write is reported; the end of the run goes on."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the rest is done
            self._notify(f"the audit log is incomplete for this run: {error}")

    def _write_new_events(self) -> None:
        """Write what launcher and bridge have reported since the last look."""
        for event in self._journaled():
            if isinstance(event, RunDenied):
                _write_denial(self._log, "refused", explain_denial(event, self._context))
            elif isinstance(event, RunExecuted):
                name = event.command.encode("latin-1").decode("utf-8", "backslashreplace")
                self._log.write("exec", command=name)
        for call in self._bridge.new() if self._bridge else ():
            _write_call(self._log, call)

    def _refused_by_proxy(self, hosts: Iterable[RunDenied]) -> None:
        for host in map(_denied_host_of, hosts):
            if host not in self._hosts and len(self._hosts) < _MOST_HOSTS:
                self._hosts.add(host)
                self._log.write("refused", by="proxy", host=host)

    def _journaled(self) -> Iterable[object]:
        """What the launcher has reported since the last look: each kind of refusal, when it happens first."""
        if self._journal < 0:
            return ()
        content = os.pread(self._journal, 1 << 20, self._read)
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        return decode_events(whole)

    def _write_totals(self, hosts: Sequence[RunDenied], refusals: Path) -> None:
        """What happened more than once, and how many hosts were left out."""
        for event in read_events(refusals):
            if isinstance(event, RunDenied) and event.count > 1:
                denial = explain_denial(event, self._context)
                _write_denial(self._log, "repeated", denial, count=event.count)
        for each in hosts:
            if _denied_host_of(each) in self._hosts and each.count > 1:
                self._log.write("repeated", by="proxy", host=_denied_host_of(each), count=each.count)
        if len(hosts) > _MOST_HOSTS:
            self._log.write("omitted", by="proxy", hosts=len(hosts) - _MOST_HOSTS)

    def _write_end(self, ended: RunEnded) -> None:
        self._notify(self._log.end(ended.status, ended.seconds))
        if not self._log.in_place():
            self._notify(f"audit log {self._log.path}: another file is there now")


def _denied_host_of(event: RunDenied) -> str:
    return event.what.host if isinstance(event.what, DeniedHost) else ""


def _write_denial(log: AuditLog, event: str, denial: Denial, **more: object) -> None:
    """A line about what the launcher has reported."""
    by = "launcher" if denial.kind == "connect" else "filter"
    log.write(
        event,
        by=by,
        kind=denial.kind,
        what=denial.what,
        error=denial.error,
        field=denial.field,
        source=denial.source,
        **more,
    )


def _write_call(log: AuditLog, event: RunCalled | RunDenied) -> None:
    """A line about a call of the bridge, without what the bridge doesn't know."""
    call = event.what
    assert isinstance(call, BridgedCall)
    fields = {name: value for name, value in vars(call).items() if value is not None}
    arguments = {"arguments": list(call.arguments)} if call.arguments is not None else {}
    log.write(
        "call" if isinstance(event, RunCalled) else "refused", **{"by": "bridge", **fields, **arguments}
    )
