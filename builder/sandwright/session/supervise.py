"""Runs a launcher under supervision, with a proxy, a bridge, an audit log or OpenTelemetry in this process.

If a launcher is a shell script, this process handles streams, terminals and signals, too (`foreground`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sandwright import foreground, user_dirs
from sandwright.egress.proxy_plan import ProxyPlan
from sandwright.egress.request_log import RequestLog
from sandwright.environment import CIDFILE
from sandwright.errors import SandwrightError
from sandwright.launcher.run_document import RunDocument, handed_over, with_document
from sandwright.lazy import load
from sandwright.session import state
from sandwright.session.access_log import Access
from sandwright.session.audit_writer import AuditWriter
from sandwright.session.bridged import BridgeLog
from sandwright.session.candidate_denials import candidate_denials
from sandwright.session.command_session import CommandSession
from sandwright.session.denials import Denials
from sandwright.session.events import RunDenials, RunEnded, RunStarted
from sandwright.session.follower import follow_run
from sandwright.session.live_denials import DenialWriter
from sandwright.session.mcp_log import McpLog
from sandwright.session.post_run import report_run
from sandwright.session.refused_hosts import RefusedHosts
from sandwright.streams import Streams

if TYPE_CHECKING:
    from sandwright.bridge.directory import Bridge
    from sandwright.egress.start import Proxy
    from sandwright.session.http_secrets import HttpSecrets


_SIGNALLED = 128
"""Exit statuses above this one mean a signal."""


@dataclass
class _Observed:
    """The facts about a run that its launcher doesn't report. `hosts` is None without a proxy."""

    status: int | None = None
    hosts: RunDenials | None = None
    bridge: BridgeLog | None = None
    paths: Denials = field(default_factory=list)


def run_supervised(session: CommandSession, notify: foreground.Notify) -> int:
    """Start the launcher, wait for its end, and give its exit status. Raise SandwrightError."""
    observed, refusals = _Observed(), Path(state.denials_of(session.id))
    context = session.prepared.record.after.context
    audit = AuditWriter(session.log, session.id, context, notify) if session.log else None
    files = [each for each in (session.request.denials, session.request.denials_log) if each]
    writer = DenialWriter(files, context) if files else None
    try:
        with ExitStack() as stack:
            follow = partial(follow_run, [each.write for each in (writer, audit) if each], notify)
            status = observed.status = _run_supervised(
                session, observed, audit, follow, stack=stack, notify=notify
            )
    finally:
        if audit is not None:
            ended = RunEnded(status=observed.status, seconds=time.time() - session.began)
            audit.finish(ended, observed.hosts or (), refusals)
        if session.request.explained and observed.status is not None:
            observed.paths = _explain_denials(session, notify)
        calls = observed.bridge.refused() if observed.bridge else ()
        report_run(
            session.record,
            observed.status,
            notify,
            refusals=refusals,
            hosts=observed.hosts,
            calls=calls,
            paths=observed.paths,
            writer=writer,
        )
    return status


def _run_supervised(
    session: CommandSession,
    observed: _Observed,
    audit: AuditWriter | None,
    follow: Callable[
        [BridgeLog | None, RefusedHosts | None, McpLog | None], AbstractContextManager[str | None]
    ],
    *,
    stack: ExitStack,
    notify: foreground.Notify,
) -> int:
    environment, document = session.environment(), session.document()
    passed: tuple[int, ...] = ()
    proxy: Proxy | None = None
    start = session.prepared.start
    if start.proxy is not None:
        proxy = _start_session_proxy(session, stack, start.proxy)
        environment |= proxy.environment
        variables = _give_secrets(session, stack, start.proxy, proxy, notify)
        document = replace(
            document, egress=str(proxy.directory), authorities=proxy.authorities, variables=variables
        )
    if start.needs_bridge:
        bridge = _bridge(session, stack)
        environment, passed = environment | bridge.environment, (bridge.channel,)
        document = replace(document, shims=str(bridge.public), channel=bridge.channel)
        observed.bridge = BridgeLog(bridge.audit, bridge.session)
    if start.changes_platform:
        bridge = _changes_bridge(session, stack)
        environment, passed = environment | bridge.environment, (bridge.channel,)
        document = replace(document, shims=str(bridge.public), channel=bridge.channel)
        observed.bridge = BridgeLog(bridge.audit, bridge.session)
    state.write(session.record)
    stack.callback(_forget_cleaned, session, observed)
    if session.request.started >= 0 and not session.prepared.has_plan:
        os.write(session.request.started, b"\0")  # such a launcher doesn't tell
    if audit is not None:
        audit.begin(_started_event(session))
    hosts = RefusedHosts(proxy.log, proxy.requests) if proxy else None
    messages = None if start.mcp_tools is None else McpLog(notify, audited=audit is not None)
    with follow(observed.bridge, hosts, messages) as journal:
        status = observed.status = _start_launcher(
            session, environment, replace(document, journal=journal), passed, messages
        )
    if proxy:
        proxy.settle()
        if proxy.has_full_logs:
            notify("the proxy stopped, because its logs were full: start the command again")
    totals = [each.total() for each in (hosts, messages) if each]
    observed.hosts = [each for total in totals for each in total] if totals else None
    return status


def _forget_cleaned(session: CommandSession, observed: _Observed) -> None:
    """Remove the record, by which `cleanup` finds leftovers of a killed launcher and monitor."""
    was_killed = observed.status is None or observed.status > _SIGNALLED
    if not (was_killed and load("sandwright.session.stale:has_placeholders")(session.record)):
        state.forget(session.id)


def _started_event(session: CommandSession) -> RunStarted:
    record = session.record
    return RunStarted(
        method=record.method,
        project=record.project,
        command=record.command,
        policy=record.policy,
        uid=os.geteuid(),
    )


def _explain_denials(session: CommandSession, notify: foreground.Notify) -> Denials:
    """The refused paths. The policy is resolved only if some may have been refused."""
    assert session.request.recording is not None
    file = Path(session.request.recording.file)
    try:
        accesses, unknown = candidate_denials(file, session.prepared.record.after.context.paths)
        found = _judge_accesses(session, accesses) if accesses else []
        if unknown:
            notify(f"{unknown} calls with unknown paths: more may have been refused")
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        notify(f"cannot report refused paths: {fault}")
        return []
    finally:
        file.unlink(missing_ok=True)


def _judge_accesses(session: CommandSession, accesses: Sequence[Access]) -> Denials:
    from sandwright.session.prepare import resolved_with  # noqa: PLC0415 - a planned proxy needs no policy

    resolve = partial(resolved_with, session.request, digest=session.record.policy)
    try:
        found: Denials = load("sandwright.session.explained:path_denials")(accesses, resolve)
        return found
    except SandwrightError as fault:
        raise ValueError(fault) from fault


def _start_launcher(
    session: CommandSession,
    environment: dict[str, str],
    document: RunDocument,
    passed: tuple[int, ...],
    messages: McpLog | None,
) -> int:
    """Start a launcher: a native one with the run document, a shell script with variables in its place."""
    words = session.launcher_argv()
    if not session.prepared.has_plan:
        cidfile = {CIDFILE.name: document.cidfile} if document.cidfile else {}
        return _foreground(session, words, environment | cidfile, passed, messages)
    with handed_over(document) as file:
        started = () if document.started is None else (document.started,)
        passed = (*passed, *started, file)
        return _foreground(session, with_document(words, file), environment, passed, messages)


def _foreground(
    session: CommandSession,
    words: list[str],
    environment: dict[str, str],
    passed: tuple[int, ...],
    messages: McpLog | None,
) -> int:
    prepared = session.prepared
    streams: Streams | None = None
    if messages is not None:
        streams = load("sandwright.session.mcp_streams:open_streams")(prepared.start.mcp_tools, messages)
    try:
        return foreground.run(
            words,
            environment,
            send_signal=lambda launcher, number: _deliver(prepared.method, launcher, number),
            relay=session.relays_terminal(),
            controlling=prepared.start.terminal == "controlling",
            job=prepared.has_plan,
            passed=passed,
            streams=streams,
        )
    except OSError as error:
        raise user_dirs.error(f"cannot start {words[0]}: {error.strerror}") from error


def _deliver(method: str, launcher: int, number: int) -> str:
    return str(load("sandwright.methods.registry:backend")(method).send_signal(launcher, number))


def _start_session_proxy(session: CommandSession, stack: ExitStack, plan: ProxyPlan) -> Proxy:
    """Start a proxy."""
    running: Proxy = stack.enter_context(load("sandwright.egress.start:start_proxy")(plan))
    recording = session.request.recording
    if recording is not None:
        stack.callback(lambda: recording.decisions.extend(running.decisions()))
        if running.requests:
            log = RequestLog(running.requests)
            stack.callback(lambda: recording.requests.extend(log.new()))
        stack.callback(running.settle)
    return running


def _give_secrets(
    session: CommandSession,
    stack: ExitStack,
    plan: ProxyPlan,
    proxy: Proxy,
    notify: foreground.Notify,
) -> tuple[str, ...]:
    """Pass the host's secrets to the proxy; give the variables of the sandbox, with their placeholders."""
    if plan.inspection is None or not plan.inspection.has_secrets:
        return ()
    start = load("sandwright.session.http_secrets:session_secrets")  # few sessions have some
    secrets: HttpSecrets = start(session.request, proxy.directory, session.record.policy, notify)
    variables = secrets.begin()
    stack.enter_context(secrets.refreshed())
    return tuple(f"{name}={value}" for name, value in variables.items())


def _changes_bridge(session: CommandSession, stack: ExitStack) -> Bridge:
    request = session.request
    ((project, _),) = request.copies.items()
    module = load("sandwright.bridge.on_demand")
    program = module.changes_program(request.policy, request.cwd, request.workspace, named=request.named)
    run = module.RunReviewed(project, session.prepared.start.changes_platform, program, dict(os.environ))
    bridge: Bridge = stack.enter_context(module.serve_changes(run))
    return bridge


def _bridge(session: CommandSession, stack: ExitStack) -> Bridge:
    from sandwright.session.prepare import start_bridge  # noqa: PLC0415 - likewise

    return start_bridge(session.request, stack, session.record.policy)
