"""Waits beside a launcher, with a proxy, a bridge or OpenTelemetry in this process.

Launchers that are shell leave streams, terminals and signals to this process, too (`foreground`).
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sandwright import foreground, places
from sandwright.bridge.start import Bridge
from sandwright.egress.start import Proxy, ProxyPlan, start_proxy
from sandwright.errors import SandwrightError
from sandwright.methods.registry import backend
from sandwright.session import absent_guard, explained, scan, state  # noqa: F401 - `end` needs them, of one version
from sandwright.session import denials as _denials  # noqa: F401 - as for the next line
from sandwright.session.access_log import parse
from sandwright.session.audit_writer import AuditWriter
from sandwright.session.bridged import BridgeLog
from sandwright.session.candidate_denials import candidate_denials
from sandwright.session.post_run import report_run

if TYPE_CHECKING:  # it imports this module
    from sandwright.session.run import CommandSession


def run_supervised(session: CommandSession, say: foreground.Say) -> int:
    """Start the launcher, and see it through; give its exit status. Raise SandwrightError."""
    status: int | None = None
    proxy: Proxy | None = None
    denials: dict[str, int] | None = None
    called: BridgeLog | None = None
    trail = AuditWriter(session, say)
    try:
        with ExitStack() as stack:
            environment = session.environment()
            passed: tuple[int, ...] = ()
            if session.prepared.proxy is not None:
                proxy = _proxy(session, stack, session.prepared.proxy)
                environment |= proxy.environment
            if session.prepared.shimmed:
                bridge = _bridge(session, stack)
                environment, passed = environment | bridge.environment, (bridge.channel,)
                called = BridgeLog(bridge.audit, bridge.session)
            state.write(session.id, session.record)
            stack.callback(state.forget, session.id)
            environment |= trail.environment()
            trail.begin(called, partial(_refused_hosts, proxy) if proxy else None)
            status = _start(session, environment, passed)
            if proxy:
                denials = _refused_hosts(proxy)
                session.denials["addresses"] = _led_astray(proxy)
    finally:
        trail.finish(status, denials)
        if session.request.explained and status is not None:
            _explain(session, say)
        report_run(session.record, status, say, denials, _refused_calls(called))
    return status


def _explain(session: CommandSession, say: foreground.Say) -> None:
    """Note for `session.denials` which paths were refused. The policy is asked only where some may be."""
    assert session.request.recording is not None
    file = Path(session.request.recording.file)
    try:
        lines, unknown = candidate_denials(
            str(file), cast("dict[str, Any]", session.prepared.decided["paths"])
        )
        if lines:
            session.denials["paths"] = _judged(session, lines)
        if unknown:
            say(f"{unknown} calls with paths are unknown: more may be refused")
    except (OSError, ValueError, KeyError, TypeError) as fault:
        say(f"which paths were refused can't be told: {fault}")
    finally:
        file.unlink(missing_ok=True)


def _judged(session: CommandSession, lines: list[str]) -> list[dict[str, object]]:
    from sandwright.session.prepare import resolved_with  # noqa: PLC0415 - a planned proxy needs no policy

    resolve = partial(resolved_with, session.request, digest=session.prepared.policy)
    try:
        return explained.denials(parse(lines), resolve)
    except SandwrightError as fault:
        raise ValueError(fault) from fault


def _refused_calls(log: BridgeLog | None) -> dict[tuple[str, str], int]:
    if log is None:
        return {}
    log.look()
    return dict(log.refused)


def _start(session: CommandSession, environment: dict[str, str], passed: tuple[int, ...]) -> int:
    prepared = session.prepared
    relay = not session.native and prepared.terminal != "passed" and foreground.on_terminal()
    words = [*(prepared.wrap_terminal if relay else prepared.wrap), *session.command()]
    try:
        return foreground.run(
            words,
            environment,
            deliver=lambda launcher, number: _deliver(prepared.method, launcher, number),
            relay=relay,
            controlling=prepared.terminal == "controlling",
            passed=passed,
        )
    except OSError as error:
        raise places.error(f"{words[0]} can't be started: {error.strerror}") from error


def _deliver(method: str, launcher: int, number: int) -> str:
    return backend(method).deliver(launcher, number)


def _proxy(session: CommandSession, stack: ExitStack, plan: dict[str, object]) -> Proxy:
    """Start a proxy."""
    running = stack.enter_context(start_proxy(ProxyPlan.from_data(plan)))
    recording = session.request.recording
    if recording is not None:
        stack.callback(lambda: recording.decisions.extend(running.decisions()))
    return running


def _refused_hosts(proxy: Proxy) -> dict[str, int]:
    """How often a proxy has refused each host until now; while it runs, as its log goes with it.

    A name without an address was refused by nobody, nor what is no request.
    """
    refused = (each for each in proxy.decisions() if each.reason not in ("", "unresolved", "malformed"))
    return dict(sorted(Counter(f"{each.host}:{each.port}" for each in refused).items()))


def _led_astray(proxy: Proxy) -> list[str]:
    """Hosts that are listed, and lead to an address where none may."""
    return sorted({f"{each.host}:{each.port}" for each in proxy.decisions() if each.reason == "address"})


def _bridge(session: CommandSession, stack: ExitStack) -> Bridge:
    from sandwright.session.prepare import start_bridge  # noqa: PLC0415 - likewise

    return start_bridge(session.request, stack, session.prepared.policy)
