"""One session: writes its record and run document; executes its launcher, or starts it and waits."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandwright import user_dirs
from sandwright.environment import SESSION, executable_environment
from sandwright.launcher.run_document import RunDocument, open_run_document, with_document, workspace_words
from sandwright.session import absent_guard, state
from sandwright.session.git_hints import git_hint
from sandwright.session.post_run_start import (
    Clock,
    can_exec_post_run,
    is_traced,
    native_post_run_argv,
    post_run_argv,
)
from sandwright.session.render_cache import CachedSandbox, cache_path
from sandwright.session.request import RunRequest, command_folder
from sandwright.session.scan_scope import ScanScope
from sandwright.session.session_record import PostRun, SessionRecord
from sandwright.signalling import identity

if TYPE_CHECKING:
    from sandwright.session.audit import AuditLog


class CommandSession:
    """One run of a command. `log` is its audit log, None without one."""

    def __init__(
        self, request: RunRequest, prepared: CachedSandbox, began: float, log: AuditLog | None = None
    ) -> None:
        self.log = log
        self.request = request
        self.prepared = prepared
        self.record = _record(request, prepared, began)

    @property
    def id(self) -> str:
        """The ID of the session."""
        return self.record.session

    @property
    def began(self) -> float:
        """The start of the session, in seconds since the epoch."""
        return self.record.began

    def environment(self) -> dict[str, str]:
        """The launcher's variables."""
        return {**os.environ, **self.prepared.environment, SESSION.name: self.id}

    def document(self) -> RunDocument:
        """The run document that a native launcher gets."""
        recording = self.request.recording
        return RunDocument(
            denials=state.denials_of(self.id),
            record=recording.file if recording else None,
            record_calls=tuple(map(str, recording.calls)) if recording else (),
            record_uses=recording is not None and not recording.looks,
            started=self.request.started if self.request.started >= 0 else None,
            requests=state.requests_of(self.id),
            cidfile=self._cidfile(),
            workspace=workspace_words(self.request.copies),
            mcp=self.prepared.start.mcp_tools is not None,
        )

    def command(self) -> list[str]:
        """The command line inside."""
        words = self.prepared.start.argv0_override
        return [*words, *self.request.argv[1:]] if words else self.request.argv

    def relays_terminal(self) -> bool:
        """Whether this process makes a new terminal for the launcher; a native launcher makes its own."""
        prepared = self.prepared
        return not prepared.has_plan and prepared.start.terminal != "passed" and os.isatty(0) and os.isatty(1)

    def launcher_argv(self) -> list[str]:
        """The words that start the launcher."""
        prepared = self.prepared
        return [*(prepared.start.terminal_argv if self.relays_terminal() else prepared.argv), *self.command()]

    def can_exec_launcher(self) -> bool:
        """Whether Python can execute the launcher, as none of its processes is needed later."""
        supervised = is_traced() or self.log is not None or self.request.recording is not None
        supervised = supervised or bool(self.request.session or self.request.denials)  # written while it runs
        supervised = supervised or bool(self.request.copies)  # the workspace is locked
        return self.prepared.runs_alone and not supervised and can_exec_post_run(state.directory())

    def exec_launcher(self, notify: Callable[[str], None]) -> int:
        """Execute the launcher; return only with an error, after cleaning up."""
        program = self.prepared.argv[0]
        try:
            file = open_run_document(replace(self.document(), post_run=self._post_run_argv()))
            os.set_inheritable(file, True)
            words = with_document(self.launcher_argv(), file)
            restore_signals()
            environ = executable_environment(self.environment())
            os.execve(program, words, environ)  # noqa: S606 - the purpose of this function
        except OSError as error:
            raise user_dirs.error(f"cannot start {program}: {error.strerror}") from error
        finally:
            state.forget(self.id)
            from sandwright.session.post_run import report_run  # noqa: PLC0415 - the launcher failed to start

            report_run(self.record, None, notify, refusals=Path(state.denials_of(self.id)))

    def _post_run_argv(self) -> tuple[str, ...]:
        """Record the run; give the words that the launcher executes at its end."""
        native: list[str] = []
        folder = command_folder()
        if folder and self.record.after == self.prepared.record.after:  # nothing that only Python does
            entry = cache_path(self.request.identity())
            native = native_post_run_argv(folder, entry)
        return (*native, *post_run_argv(state.write(self.record)))

    def _cidfile(self) -> str | None:
        """The file of `--cidfile` where an engine writes the container's id; else write our own there."""
        path = self.request.cidfile
        if not path:
            return None
        from sandwright.methods.registry import properties  # noqa: PLC0415 - only for a file

        if properties(self.prepared.method).engine and not os.path.lexists(path):
            return path
        _write_new(path, self.id)
        return None


def _record(request: RunRequest, prepared: CachedSandbox, began: float) -> SessionRecord:
    """The record of a run that begins now."""
    clock, process, session = Clock(), identity(), request.session or state.new_id()
    sandbox = prepared.record
    return SessionRecord(
        session=session,
        pid=process.pid,
        start=process.start,
        boot=process.boot,
        pid_namespace=process.pid_namespace,
        machine=process.machine,
        began=began,
        clock=(clock.began, clock.ticks),
        command=os.path.basename(request.argv[0]),  # noqa: PTH119 - a word
        name=request.name,
        method=sandbox.method,
        project=sandbox.project,
        policy=sandbox.policy,
        artifacts=sandbox.artifacts,
        directory=sandbox.directory,
        placeholders=() if request.copies else sandbox.placeholders,  # those are in the copy
        enforced=sandbox.enforced,
        after=_post_run_settings(session, request, prepared),
    )


def _post_run_settings(session: str, request: RunRequest, prepared: CachedSandbox) -> PostRun:
    report = prepared.record.after
    return PostRun(
        policy=request.policy,
        scope=_outside_project(report.scope, request.copies),
        context=report.context,
        guard=absent_guard.begin_absent_guard(session, request.policy, report.scope.absent),
        telemetry=request.telemetry,
        quiet=request.quiet,
        rendered="now" if prepared.fresh and (request.telemetry or is_traced()) else "before",
        hint=git_hint(request.argv, report.scope, prepared.start.unsigned),
    )


def _outside_project(scope: ScanScope, copies: Mapping[str, str]) -> ScanScope:
    """The scope of the scan after a run. A project in review is left out, because only `apply` changes it."""
    if not copies:
        return scope
    projects = tuple(f"{path}/" for path in copies)
    return replace(
        scope, roots=tuple(each for each in scope.roots if not f"{each}/".startswith(projects)), git=()
    )


def restore_signals() -> None:
    """Restore the default signal handling: Python ignores the first two, and defers Ctrl-C."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _write_new(path: str, text: str) -> None:
    """Write a file that must not be there yet, as `docker run --cidfile` does."""
    try:
        with open(path, "x", encoding="utf-8") as file:  # noqa: PTH123 - a name of the caller's
            file.write(text)
    except OSError as error:
        raise user_dirs.error(f"cannot write {path}: {error.strerror}") from error
