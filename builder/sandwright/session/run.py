"""Runs a command in the sandbox of a policy, from the request to the exit status.

`run` gets the sandbox from the render cache or from `session.prepare`. If the launcher is native (a C
program) and needs no proxy, bridge or telemetry in this process, this process executes it, and it executes
`post_run` at the end. Otherwise `supervise` starts the launcher and waits for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from sandwright.errors import HostError, UsageError
from sandwright.lazy import load
from sandwright.session import absent_guard, render_cache, stale, state, trust
from sandwright.session.command_session import CommandSession
from sandwright.session.recording import Recording
from sandwright.session.render_cache import CachedSandbox
from sandwright.session.request import RunRequest
from sandwright.session.scan_scope import ScanScope
from sandwright.signalling import liveness

if TYPE_CHECKING:
    from sandwright.session.audit import AuditLog

LAUNCHER_FAILED = 125
TIME_IS_UP = 124
_QUICKLY = 0.2
"""Seconds in which a file system must answer whether a killed session's placeholders exist."""


def run(request: RunRequest, *, notify: Callable[[str], None] = lambda _: None) -> int:
    """Run the request's command; give its exit status, unless this process becomes the launcher.

    128 + n means that signal n ended it, 124 that the time limit was reached, 125 that its launcher could not
    start it as it was rendered, and reported why. `notify` gets the warnings and notes, a line each. Raise
    SandwrightError when nothing was started.
    """
    if not request.argv:
        raise UsageError("give a command to run, behind --")
    began = time.time()
    absent_guard.check_absent_names(request.policy)
    log = _open_audit_log(request.audit)
    with ExitStack() as stack:
        try:
            prepared = _prepare_sandbox(request, stack, notify)
            _check_options(request, prepared, log)
        except BaseException:
            if log is not None:
                log.purge()
            raise
        report_start(prepared, notify, word=request.trusted)
        sweep_records(notify)
        return _start(CommandSession(request, prepared, began, log), notify)


def _prepare_sandbox(request: RunRequest, stack: ExitStack, notify: Callable[[str], None]) -> CachedSandbox:
    """The sandbox of a request; in a review workspace, until the stack is closed."""
    found = _find_cached(request)
    if found is not None:
        return found
    plan = render_cache.find_entry(request.plan_identity(), {})
    plan = plan or load("sandwright.session.review_plan:make_plan")(request)
    if plan is None:
        return _render_now(request, notify)
    review = stack.enter_context(load("sandwright.session.review:review_workspace")(request, plan, notify))
    prepared = prepare_or_cached(request, notify)
    review.report_live_paths(prepared.record.after.scope, notify)
    return prepared


def _start(session: CommandSession, notify: Callable[[str], None]) -> int:
    if session.request.explained:
        paths = os.path.join(state.directory(), f"{session.id}.record")
        session.request.recording = Recording(paths, looks=False)
    if session.can_exec_launcher():
        return session.exec_launcher(notify)
    from sandwright.session.supervise import run_supervised  # noqa: PLC0415 - costs milliseconds

    return run_supervised(session, notify)


def report_start(prepared: CachedSandbox, notify: Callable[[str], None], *, word: bool) -> None:
    """Print the notes that come before a start. `word`: the policy is approved for this run only."""
    start = prepared.start
    loosened = trust.start_line(start.loosened, fresh=prepared.fresh, word=word)
    # Loading a policy warns of retired names: a cached sandbox loads none.
    notes = start.notes if prepared.fresh else start.retired
    for note in (start.default_policy, *notes, loosened):
        if note:
            notify(note)


def _open_audit_log(path: str) -> AuditLog | None:
    """Open the audit log, before a sandbox could change the path. Raise UsageError, HostError."""
    if not path:
        return None
    from sandwright.session.audit import AuditLog  # noqa: PLC0415 - costs milliseconds, and few runs have one

    return AuditLog(path)


def _check_options(request: RunRequest, prepared: CachedSandbox, log: AuditLog | None) -> None:
    """Raise UsageError for options that this sandbox cannot honour."""
    if prepared.start.mcp_tools is not None:
        load("sandwright.session.mcp_streams:check_client_streams")(detached=request.detach)
    if log is not None:
        _check_enforces(prepared, log)
        _check_not_writable("the audit log", log.path, prepared)
    for what, path in (("--denials", request.denials), ("--telemetry", request.telemetry)):
        if path:
            _check_not_writable(what, path, prepared)
    if request.explained:
        _check_explained(prepared)
    _check_program_visible(request.argv[0], prepared.record.after.scope)


def _check_enforces(prepared: CachedSandbox, log: AuditLog) -> None:
    """Raise UsageError for a method that enforces nothing, and so does not protect the log."""
    from sandwright.methods.registry import declaration  # noqa: PLC0415 - only for a log

    if not declaration(prepared.method).enforces:
        raise UsageError(f"{prepared.method} cannot protect the audit log {log.path}")


def _check_not_writable(what: str, path: str, prepared: CachedSandbox) -> None:
    """Raise UsageError for a file in a directory that the sandbox may write."""
    for root in prepared.record.after.scope.roots:
        if f"{path}/".startswith(f"{root.rstrip('/')}/"):
            raise UsageError(f"{what} {path} is in {root}, which the sandbox may write")


def _check_explained(prepared: CachedSandbox) -> None:
    """Raise UsageError where the method cannot report denied paths."""
    from sandwright.methods.registry import declaration  # noqa: PLC0415 - few runs ask for it

    if why := declaration(prepared.method).why_unreported("paths"):
        raise UsageError(f"--explain-denials: {prepared.method} cannot report paths: {why}")


def _check_program_visible(program: str, scope: ScanScope) -> None:
    """Raise UsageError for a program below /tmp, where the sandbox has a private directory."""
    path = os.path.normpath(program)
    if not path.startswith("/tmp/") or not os.path.exists(path):  # noqa: S108 - a name, nothing is made
        return
    below = (each for each in (*scope.roots, *scope.closed) if each.startswith("/tmp"))  # noqa: S108
    is_visible = any(path == each or path.startswith(f"{each}/") for each in below)
    if scope.roots and not is_visible:
        raise UsageError(
            f"{program} does not exist inside: the sandbox has a private, empty /tmp. Put it into the "
            "project, or list it in filesystem.read"
        )


def prepare_or_cached(request: RunRequest, notify: Callable[[str], None] = lambda _: None) -> CachedSandbox:
    """The sandbox of a request, from the render cache or rendered now. Raise SandwrightError.

    It is rendered once more if the host changed meanwhile, as when another program makes a socket.
    """
    return _find_cached(request) or _render_now(request, notify)


def _find_cached(request: RunRequest) -> CachedSandbox | None:
    found = render_cache.find(request.identity(), request.copies)
    if found is None or not _as_rendered(found):
        return None
    trust.require_approval(found.start.loosened, word=request.trusted)
    return found


def _render_now(request: RunRequest, notify: Callable[[str], None]) -> CachedSandbox:
    from sandwright.session.prepare import prepare  # noqa: PLC0415 - a cached sandbox needs none of it

    prepared = prepare(request, notify)
    is_current = render_cache.find_entry(request.identity(), request.copies) is not None
    return prepared if is_current else prepare(request, notify)


def _as_rendered(prepared: CachedSandbox) -> bool:
    """Whether the artifacts on disk have the recorded digests."""
    try:
        return all(render_cache.digest(path) == digest for path, digest in prepared.artifacts())
    except OSError:
        return False


def sweep_records(notify: Callable[[str], None]) -> None:
    """Remove the records of killed sessions without leftovers for `sandwright cleanup`."""
    for record in state.read_all():
        if liveness(record.process) == "ended":
            _forget_session(record.session, notify)
    for path in state.half_written():
        try:
            os.unlink(path)
        except FileNotFoundError:  # another run sweeps too
            pass


def _forget_session(session: str, notify: Callable[[str], None]) -> None:
    try:
        stale.forget(session, within=_QUICKLY, notify=notify)
    except HostError:  # another process cleans up
        pass
