"""Commands about sessions: test the methods of this machine, list running sessions, clean up."""

from __future__ import annotations

import json as encoder
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import time as time_now

from sandwright.checked import Checked
from sandwright.cli import console
from sandwright.documents.model import plain
from sandwright.errors import HostError, IntegrityError, SandwrightError
from sandwright.methods.registry import properties
from sandwright.policy.declaration import REFUSED, Refused
from sandwright.policy.values import duration
from sandwright.session import detached, state
from sandwright.session.audit_check import check_audit_log
from sandwright.session.cleanup import foreign_sessions, leftover_lines, leftovers, remove_leftover
from sandwright.session.doctor import Diagnosis, Instead, Rung, diagnose, unusable_directories
from sandwright.session.persistent import unused_caches
from sandwright.session.session_record import Enforced, SessionRecord
from sandwright.session.usage import Usage, usage_of
from sandwright.signalling import liveness


def doctor(
    *,
    method: Sequence[str] | None = None,
    fresh: bool = False,
    json: bool = False,
) -> None:
    """Show which methods work here, by starting a sandbox with each, and the gaps of the others.

    Raise HostError, after that, for a directory without which nothing starts.
    """
    found = diagnose(fresh=fresh, methods=tuple(method or ()))
    if json:
        console.lines(encoder.dumps(found.as_data(), indent=2))
    else:
        _print_diagnosis(found, unreported=bool(method))
    for error in unusable_directories():
        raise error


def _print_diagnosis(found: Diagnosis, *, unreported: bool) -> None:
    """Print the findings; with `unreported` also the refusals that no run of these methods reports."""
    console.line(f"this is a {found.surroundings.kind}")
    for restriction in found.surroundings.restrictions:
        console.line(f"  {restriction}")
    for need in found.surroundings.outer if found.held_back else ():
        console.line(f"  for sandboxes in here, the container needs {need}")
    for line in found.upstream:
        console.line(f"  {line}")
    rows = [[each.method, each.code, each.message, each.remedy] for each in found.methods]
    console.table(["method", "state", "what was found", "what helps"], rows)
    for line in (
        *(_unreported_lines(found.untold) if unreported else ()),
        *_ladder(found.ladder),
        *_other_forms(found.fallback),
        *_untried_lines(found.untried),
    ):
        console.line(line)


def _unreported_lines(found: Mapping[str, Mapping[Refused, str]]) -> Iterator[str]:
    """The refused accesses that a run does not report, by method."""
    for method, refused in found.items():
        for why in dict.fromkeys(refused.values()):
            about = "; ".join(REFUSED[each] for each in refused if refused[each] == why)
            yield f"a run under {method} doesn't report refused {about}: {why}"


def _ladder(rungs: Sequence[Rung]) -> Iterator[str]:
    """The method that a new policy would name here, and the reasons against those before it."""
    if not rungs:
        return
    starts = rungs[-1].starts
    named = rungs[-1].method if starts else "no method, because none starts here"
    yield f"a new policy (sandwright init) would name {named}"
    for each in rungs[:-1] if starts else rungs:
        yield f"  not {each.method}: {each.why}"
        if each.change:
            yield f"    what would change it: {each.change}"


def _other_forms(found: Sequence[Instead]) -> Iterator[str]:
    """The methods that start here only in a weaker variant."""
    for each in found:
        yield f"{each.method} starts with {each.form}: {each.weaker}"
        yield f"  not {each.method} itself: {each.why}"
        if each.change:
            yield f"    what would change it: {each.change}"


def _untried_lines(found: Mapping[str, str]) -> Iterator[str]:
    """The forms that were not started, since another one works here."""
    for form, method in found.items():
        yield f"not tried: {form}, as {method} starts (sandwright doctor --method {form})"


_ELSEWHERE = "session {} belongs to another PID namespace or machine: ask there"


def status(*, json: bool = False) -> None:
    """Show this user's running sessions and the restrictions of each."""
    records = [(record, liveness(record.process)) for record in state.read_all()]
    running = [record for record, found in records if found == "running"]
    others = [record.session for record, found in records if found == "elsewhere"]
    if json:
        sessions = [
            {name: value for name, value in plain(each).items() if name != "after"}
            | {"usage": plain(_usage(each))}
            for each in running
        ]
        console.lines(encoder.dumps({"sessions": sessions, "elsewhere": others}, indent=2))
        return
    for session in others:
        console.line(_ELSEWHERE.format(session))
    if not running:
        console.line("no session runs")
        return
    rows = [
        [
            f"{each.name} ({each.session})" if each.name else each.session,
            *(_elapsed(each.began), *_used(_usage(each))),
            *(each.method, str(each.pid), each.command, each.project),
            _enforced(each.enforced),
        ]
        for each in running
    ]
    console.table(
        ["session", "age", "memory", "cpu", "method", "pid", "command", "project", "enforced"], rows
    )


def _usage(record: SessionRecord) -> Usage | None:
    """None where its processes are elsewhere."""
    method = properties(record.method)
    return None if method.runs_elsewhere or method.remote else usage_of(record.pid)


def _used(usage: Usage | None) -> tuple[str, str]:
    return (f"{usage.memory / 2**20:.0f} MiB", f"{usage.cpu:.1f} s") if usage else ("-", "-")


def logs(*, session: str = "", follow: bool = False, denials: bool = False) -> None:
    """Print the output or the denials of a detached run. Raise UsageError for a session without a log."""
    if denials:
        detached.copy_denials(session, sys.stdout, follow=follow)
    else:
        detached.copy_log(session, sys.stdout.buffer, follow=follow)


def stop(*, session: str, time: str = "") -> None:
    """End a running session. Raise UsageError where none of that name or ID runs."""
    seconds = duration(time) if time else 10
    if not detached.stop(session, seconds):
        console.warn(f"session {session} did not end within {seconds} s, and was killed")


def _elapsed(began: float) -> str:
    """`45 s`, `12 min`, `3 h`, `2 d`."""
    seconds = max(0, int(time_now() - began))
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def _enforced(enforced: Enforced) -> str:
    """The enforced settings, in a few words."""
    parts = [f"network {enforced.network}", f"seccomp {enforced.seccomp}"]
    parts += [f"{len(enforced.write)} writable", f"{enforced.denied} denied"]
    parts += [f"{name} {value}" for name, value in enforced.limits.items()]
    parts += [f"NOT {name}" for name in enforced.degraded]
    return ", ".join(parts)


def verify_audit(*, file: str, head: str = "", json: bool = False) -> Checked:
    """Check an audit log. Raise IntegrityError where a line was changed, moved, removed or cut off."""
    found = check_audit_log(Path(file), head=head, runs=lambda session: state.liveness_of(session) != "ended")
    if json:
        data = {name: getattr(found, name) for name in ("lines", "sessions", "head", "faults", "notes")}
        console.lines(encoder.dumps(data, indent=2))
    else:
        lines, sessions = console.counted(found.lines, "line"), console.counted(found.sessions, "session")
        console.line(f"{file}: {lines} of {sessions}, head {found.head}")
        for note in found.notes:
            console.line(note)
    if found.faults:
        raise IntegrityError(*found.faults)
    if found.lines and not json:
        console.line("no line was changed, moved or removed")
    return Checked(found.lines, why=f"{file} is empty")


def cleanup(*, caches: bool = False, dry_run: bool = False, json: bool = False) -> None:
    """Remove leftovers of killed sessions. Running sessions and other users' files are not touched."""
    removed, stays = [], []
    for each in [*leftovers(), *(unused_caches() if caches else ())]:
        try:
            if dry_run or remove_leftover(each, console.warn):
                removed.append(each)
        except SandwrightError as error:
            stays.append(str(error))
    lines, others = leftover_lines(removed), foreign_sessions()
    if json:
        data = {"found": lines, "removed": not dry_run, "stays": stays, "elsewhere": others}
        console.lines(encoder.dumps(data, indent=2))
    else:
        for session in others:
            console.line(f"left alone: {_ELSEWHERE.format(session)}")
        for line in lines or ["nothing is left"]:
            console.line(("would remove " if dry_run else "removed ") * bool(lines) + line)
    if stays:
        raise HostError(*stays)
