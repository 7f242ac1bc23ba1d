"""Writes a run to its audit log: its start, refusals and calls as they happen, its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sandwright.session.audit import AuditLog
from sandwright.session.denial_context import DenialContext
from sandwright.session.denials import Denial, explain_denial
from sandwright.session.events import (
    BridgedCall,
    DeniedHost,
    DeniedMessage,
    DeniedRequest,
    RunCalled,
    RunDenials,
    RunDenied,
    RunEnded,
    RunEvent,
    RunExecuted,
    RunMessage,
    RunOmitted,
    RunRequested,
    RunStarted,
    read_events,
)


class AuditWriter:
    """The lines of one run in an open log."""

    def __init__(
        self, log: AuditLog, session: str, context: DenialContext, notify: Callable[[str], None]
    ) -> None:
        log.session = session
        self._log, self._context, self._notify = log, context, notify
        self._begun = False
        self._fault: Exception | None = None

    def begin(self, started: RunStarted) -> None:
        """Write the start. Raise HostError if that fails; nothing is started then."""
        self._log.write(
            "start",
            method=started.method,
            project=started.project,
            command=started.command,
            policy=started.policy,
            uid=started.uid,
        )
        self._begun = True

    def write(self, event: RunEvent) -> None:
        """Write an event. After a failed write, write nothing until the end, which reports the failure."""
        if self._fault is None:
            try:
                self._write_event(event)
            except Exception as fault:  # noqa: BLE001 - the run goes on after any error
                self._fault = fault

    def finish(self, ended: RunEnded, hosts: RunDenials, refusals: Path) -> None:
        """Write the end of the run, and report the head. A failed write is reported.

        `hosts` is the list of hosts that the proxy refused. The launcher wrote `refusals`.
        """
        if not self._begun:
            return
        if self._fault is not None:
            self._report_fault(self._fault)
        self._try_write(lambda: self._write_totals(hosts, refusals))
        self._try_write(lambda: self._write_end(ended))
        self._log.close()

    def _try_write(self, work: Callable[[], None]) -> None:
        """A failed write is reported; the end of the run goes on."""
        try:
            work()
        except Exception as fault:  # noqa: BLE001 - the rest is done after any error
            self._report_fault(fault)

    def _report_fault(self, fault: Exception) -> None:
        self._notify(f"the audit log is incomplete for this run: {fault}")

    def _write_event(self, event: RunEvent) -> None:
        match event:
            case RunDenied(what=DeniedHost(host=host)):
                self._log.write("refused", by="proxy", host=host)
            case RunDenied(what=DeniedRequest() as request):
                self._log.write("refused", by="proxy", **vars(request))
            case RunDenied(what=DeniedMessage() as message):
                self._log.write("refused", by="mcp", **vars(message))
            case RunRequested():
                self._log.write("request", by="proxy", **vars(event))
            case RunMessage():
                self._log.write("request", by="mcp", **vars(event))
            case RunCalled() | RunDenied(what=BridgedCall()):
                _write_call(self._log, event)
            case RunDenied():
                _write_denial(self._log, "refused", explain_denial(event, self._context))
            case RunExecuted(command=command):
                name = command.encode("latin-1").decode("utf-8", "backslashreplace")
                self._log.write("exec", command=name)

    def _write_totals(self, hosts: RunDenials, refusals: Path) -> None:
        """Write the totals of repeated events, and the number of omitted requests to hosts."""
        for event in (*read_events(refusals), *hosts):
            match event:
                case RunRequested() | RunMessage():
                    self._write_event(event)
                case RunDenied(what=DeniedHost(host=host), count=count) if count > 1:
                    self._log.write("repeated", by="proxy", host=host, count=count)
                case RunDenied(what=DeniedRequest() as request, count=count) if count > 1:
                    self._log.write("repeated", by="proxy", **vars(request), count=count)
                case RunDenied(what=DeniedMessage() as message, count=count) if count > 1:
                    self._log.write("repeated", by="mcp", **vars(message), count=count)
                case RunDenied(count=count) if count > 1:
                    denial = explain_denial(event, self._context)
                    _write_denial(self._log, "repeated", denial, count=count)
        for each in hosts:
            if isinstance(each, RunOmitted):
                self._log.write("omitted", by="proxy", count=each.count)

    def _write_end(self, ended: RunEnded) -> None:
        self._notify(self._log.end(ended.status, ended.seconds))
        if not self._log.in_place():
            self._notify(f"audit log {self._log.path}: another file is there now")


def _write_denial(log: AuditLog, event: str, denial: Denial, **more: object) -> None:
    """Write a line about a refusal that the launcher reported."""
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
    """Write a line about a call of the bridge, without unknown fields."""
    call = event.what
    assert isinstance(call, BridgedCall)
    fields = {name: value for name, value in vars(call).items() if value is not None}
    arguments = {"arguments": list(call.arguments)} if call.arguments is not None else {}
    log.write(
        "call" if isinstance(event, RunCalled) else "refused", **{"by": "bridge", **fields, **arguments}
    )
