"""Probes of the begin and end of runs: statuses, signals, time limits, leftovers.

Nothing may be left, however the launcher ends. Each of these probes starts a new sandbox. The expected
results are here, beside the probes, because they are the launcher's contract: it exits as its command does,
with 124 after the time limit, with 125 if it started nothing.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

from sandwright import process
from sandwright.engines.client import EngineClient
from sandwright.environment import SESSION
from sandwright.errors import CommandFailed
from sandwright.launcher.plan import parse_plan
from sandwright.methods import registry
from sandwright.mountinfo import mounted_below
from sandwright.questions import is_placeholder
from sandwright.runtime.probe.protocol import attempt, parse_answers, requests
from sandwright.signalling import kill
from sandwright.verify.outcome import UNANSWERED, ProbeOutcome
from sandwright.verify.outer import outer_outcomes
from sandwright.verify.probe import Family
from sandwright.verify.runs import START, Runs
from sandwright.verify.sandbox import RenderedSandbox, await_end, why_unanswered
from sandwright.verify.verdict import Verdict

SETTLED = 1.0
"""Seconds after which a denied file that was made during a run is hidden; milliseconds are measured."""

REPLACED = 137
"""The launcher's exit status when it ends a run because of a change on the host."""

GRACE = 30.0
"""Seconds in which all parts of a run must be gone after its launcher's end; an engine on a busy machine
takes some."""


def lifecycle(runs: Runs) -> Iterator[ProbeOutcome]:
    """The verdicts on runs as a whole."""
    before = _project_names(Path(runs.subject.policy.facts.project))
    yield from _status_outcomes(runs)
    yield _unchanged_only(runs)
    if runs.short is not None:
        yield _timeout_outcome(runs, runs.short)
    if registry.declaration(runs.subject.method).of("filesystem.deny").level != "cannot":
        yield _denied_later(runs)
    yield from _ending_outcomes(runs)
    yield _ghosts(runs, before)
    if runs.subject.properties.outer_container and runs.subject.policy.gvisor_engine != "none":
        yield from outer_outcomes(runs)


COMMAND_RUNS = (
    *("lifecycle/exit-status", "lifecycle/signal", "lifecycle/killed", "lifecycle/terminated"),
    "environment/arguments",
)
"""The names of the probes of `command_runs`."""


def command_runs(runs: Runs) -> Iterator[ProbeOutcome]:
    """The verdicts on runs of a foreign command."""
    yield from _status_outcomes(runs)
    yield from _ending_outcomes(runs)


def _status_outcomes(runs: Runs) -> Iterator[ProbeOutcome]:
    yield _exit_outcome(
        runs, "exit-status", ("exit", "42"), 42, "the launcher exits with the command's exit status"
    )
    yield _exit_outcome(
        runs,
        "signal",
        ("fault", "8"),
        128 + signal.SIGSEGV,
        "if signal N ends the command, the exit status is 128 + N",
    )


def _ending_outcomes(runs: Runs) -> Iterator[ProbeOutcome]:
    yield from _signal_outcomes(runs, "killed", signal.SIGKILL)
    yield from _signal_outcomes(runs, "terminated", signal.SIGTERM)


def _outcome(
    runs: Runs, name: str, about: str, *, expected: str, observed: str, wrong: str = "", evidence: str = ""
) -> ProbeOutcome:
    return ProbeOutcome(
        probe=f"{'environment' if name == 'arguments' else 'lifecycle'}/{name}",
        method=runs.subject.method,
        family=Family.ENVIRONMENT if name == "arguments" else Family.LIFECYCLE,
        verdict=Verdict.FAIL if wrong else Verdict.PASS,
        expected=expected,
        observed=observed,
        evidence="\n".join(part for part in (evidence, wrong) if part),
        about=about,
    )


def _ran(sandbox: RenderedSandbox, *words: str) -> tuple[int | None, str]:
    try:
        result = sandbox.run(words, limit=START)
    except CommandFailed as failed:
        return failed.status, failed.stderr
    return result.status, result.stderr


def _exit_outcome(runs: Runs, name: str, words: tuple[str, ...], expected: int, about: str) -> ProbeOutcome:
    control, _ = _ran(runs.sandbox, "exit", "0")
    status, stderr = _ran(runs.sandbox, *words)
    wrong = "" if (control, status) == (0, expected) else stderr.strip() or "the statuses differ"
    evidence = f"{' '.join(words)} → {status}\ncontrol: exit 0 → {control}"
    return _outcome(
        runs, name, about, expected=str(expected), observed=str(status), wrong=wrong, evidence=evidence
    )


def _unchanged_only(runs: Runs) -> ProbeOutcome:
    """A copy of the artifacts in which the first that is checked has one byte more."""
    source = runs.sandbox.launcher.parent
    directory = source.with_name("changed")
    shutil.copytree(source, directory)
    plan = directory / "launch.plan"
    names = [name for name, _ in parse_plan(plan.read_bytes()).artifacts] if plan.exists() else []
    changed = (
        directory / (names or sorted(each.name for each in directory.iterdir() if each.name != "launch"))[0]
    )
    with changed.open("ab") as file:
        file.write(b"\n")
    sandbox = replace(runs.sandbox, launcher=directory / "launch")
    control, _ = _ran(runs.sandbox, "exit", "0")
    status, stderr = _ran(sandbox, "exit", "0")
    return _outcome(
        runs,
        "changed",
        f"nothing runs when {changed.name} was changed after it was rendered",
        expected="125",
        observed=str(status),
        wrong=""
        if (control, status) == (0, 125) and "changed" in stderr
        else "it ran, or was refused for another reason",
        evidence=f"one byte more → {status}: {stderr.strip()}\ncontrol: unchanged → {control}",
    )


def _timeout_outcome(runs: Runs, sandbox: RenderedSandbox) -> ProbeOutcome:
    started = time.monotonic()
    status, stderr = _ran(sandbox, "sleep", "60")
    seconds = time.monotonic() - started
    remains = _wait_for_remains(runs)
    wrong = "" if status == 124 else f"not ended by its time limit: {stderr.strip()}"
    return _outcome(
        runs,
        "time",
        "the time limit ends a run with all its processes",
        expected="124",
        observed=str(status),
        wrong="; ".join(part for part in (wrong, remains) if part),
        evidence=f"a limit of 1 s: ended after {seconds:.1f} s with {status}: {stderr.strip()}",
    )


def _signal_outcomes(runs: Runs, name: str, number: signal.Signals) -> Iterator[ProbeOutcome]:
    """Start a run, wait until it is alive, send the launcher a signal, and look for leftovers."""
    about = f"nothing is left when the launcher gets {number.name}: no process, no mount, no directory"
    sandbox = runs.sandbox
    with process.start(
        *sandbox.argv(()), stdin=b"", env=sandbox.environment, cwd=sandbox.cwd, pass_fds=sandbox.inherited()
    ) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        mark = runs.subject.fixture.write / f"alive-{uuid.uuid4().hex}"
        alive = _alive(started.stdin, started.stdout, mark, started.poll)
        why = "" if alive else why_unanswered(started.poll(), _read_available(started.stderr), START)
        if name == "killed":
            yield _argument_outcome(runs, why=why)
        with contextlib.suppress(ProcessLookupError):
            os.kill(started.pid, number)
        process.ended_within(started.poll, GRACE)
        remains = _wait_for_remains(runs)
    if not alive:
        yield _undecided(runs, name, about, why)
        return
    yield _outcome(
        runs,
        name,
        about,
        expected="nothing is left",
        observed="something is left" if remains else "nothing is left",
        wrong=remains,
        evidence=f"it answered, then {number.name} to the launcher; ended with {started.returncode}",
    )


def _denied_later(runs: Runs) -> ProbeOutcome:
    """Create a denied file on the host while the sandbox runs; attempt to read it inside a moment later."""
    sandbox, later = runs.sandbox, runs.subject.fixture.later
    secret = uuid.uuid4().hex
    with process.start(
        *sandbox.argv(()), stdin=b"", env=sandbox.environment, cwd=sandbox.cwd, pass_fds=sandbox.inherited()
    ) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        mark = runs.subject.fixture.write / f"alive-{uuid.uuid4().hex}"
        alive = _alive(started.stdin, started.stdout, mark, started.poll)
        try:
            later.write_text(secret, encoding="utf-8")
            time.sleep(SETTLED)
            with contextlib.suppress(BrokenPipeError):
                started.stdin.write(requests([attempt("read", later)], word="later"))
                started.stdin.close()
            answer = parse_answers(started.stdout.read(_LONGEST_ANSWER), 1, word="later", why="")[0]
            await_end(started.poll)
        finally:
            later.unlink(missing_ok=True)
    ended = started.returncode == REPLACED and answer.kind == "none"
    hidden = answer.kind == "errno" or (answer.kind == "ok" and secret.encode() not in answer.value)
    return _outcome(
        runs,
        "denied-later",
        "a denied file that the host creates during a run is hidden or ends the run",
        expected=f"hidden, or ended with {REPLACED}",
        observed="hidden" if hidden else f"ended with {started.returncode}" if ended else str(answer),
        wrong="" if alive and (hidden or ended) else "its content was read, or nothing answered",
        evidence=f"made while it ran; {SETTLED:g} s later it was read: {answer}",
    )


def _read_available(stderr: IO[bytes] | None) -> str:
    """The output of a launcher that is available now: a process that outlived it may keep the pipe open."""
    if stderr is None or not select.select([stderr], [], [], 0)[0]:
        return ""
    return os.read(stderr.fileno(), 4096).decode(errors="replace").strip()


def _undecided(runs: Runs, name: str, about: str, why: str) -> ProbeOutcome:
    return ProbeOutcome(
        probe=f"lifecycle/{name}",
        method=runs.subject.method,
        family=Family.LIFECYCLE,
        verdict=Verdict.INCONCLUSIVE,
        expected="nothing is left",
        observed="none",
        evidence=f"{UNANSWERED}{why}\nthere was nothing to leave",
        about=about,
    )


def _alive(stdin: IO[bytes], stdout: IO[bytes], mark: Path, poll: Callable[[], int | None]) -> bool:
    """Let the run create a file, and wait for its answer.

    Its standard input stays open, so that it goes on.
    """
    with contextlib.suppress(BrokenPipeError):
        stdin.write(requests([attempt("create", mark)], word="alive"))
        stdin.flush()
    output, until = b"", time.monotonic() + START
    while (
        b"\n" not in output
        and len(output) < _LONGEST_ANSWER
        and (seconds_remaining := until - time.monotonic()) > 0
    ):
        if select.select([stdout], [], [], seconds_remaining)[0]:
            more = os.read(stdout.fileno(), 4096)
            output += more
            if not more:
                await_end(poll)
                break
    return output.startswith(b"alive 0 ok") and mark.exists()


_LONGEST_ANSWER = 1 << 16


def _argument_outcome(runs: Runs, *, why: str) -> ProbeOutcome:
    """Whether a variable's value is in the arguments of a process of a run, which all users can read."""
    values = {value.encode(): name for name, value in runs.subject.canaries.environment.items()}
    seen = sorted(
        {name for line in _command_lines().values() for value, name in values.items() if value in line}
    )
    return _outcome(
        runs,
        "arguments",
        "no variable's value is an argument of a process on the host while the sandbox runs",
        expected="none of them",
        observed=", ".join(seen) or "none of them",
        wrong=f"{UNANSWERED}{why}" if why else "arguments hold values" if seen else "",
        evidence=f"looked for {len(values)} values in the arguments of all processes",
    )


def _command_lines() -> dict[int, bytes]:
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found[int(directory.name)] = (directory / "cmdline").read_bytes()
    return found


def _wait_for_remains(runs: Runs) -> str:
    """The leftovers of a run after some time, empty for none. Remaining processes are ended."""
    until = time.monotonic() + GRACE
    while True:
        remains = "; ".join(_remains(runs))
        if not remains or time.monotonic() > until:
            break
        time.sleep(0.02)
    for pid in _run_processes(runs):
        kill(pid, sure=partial(_names_ours, pid, runs))
    return remains


def _names_ours(pid: int, runs: Runs) -> bool:
    return pid in _run_processes(runs)


def _run_processes(runs: Runs) -> dict[int, str]:
    """Processes with one of our files among their arguments, which no others have."""
    own_pid, fixture = os.getpid(), runs.subject.fixture
    ours = [os.fsencode(each) for each in (fixture.root, fixture.hidden, fixture.runtime)]
    return {
        pid: line.replace(bytes(1), b" ").decode(errors="replace")[:200]
        for pid, line in _command_lines().items()
        if any(each in line for each in ours) and pid != own_pid
    }


def _remains(runs: Runs) -> Iterator[str]:
    """The leftovers: processes with a file of ours, mounts below our directory, files of the launcher."""
    fixture = runs.subject.fixture
    yield from (f"process {pid}: {line}" for pid, line in _run_processes(runs).items())
    for directory in (fixture.root, fixture.hidden, fixture.runtime):
        yield from (f"mount {point}" for point in mounted_below(directory))
    if engine := runs.subject.engine:
        session = runs.sandbox.environment[SESSION.name]
        with contextlib.suppress(CommandFailed):
            containers = EngineClient(engine).containers(f"sandwright.session={session}", timeout=START)
            yield from (f"container {each}" for each in containers)
    yield from (f"file {each}" for each in sorted(fixture.state.glob("sandwright/runs/*")))


def _project_names(project: Path) -> frozenset[str]:
    """The entries of the project, two levels deep, and of its repository."""
    first = _list_directory(project)
    second = [path for each in first for path in _list_directory(each)]
    third = [path for each in second if each.parent.name == ".git" for path in _list_directory(each)]
    return frozenset(str(path.relative_to(project)) for path in (*first, *second, *third))


def _list_directory(directory: Path) -> list[Path]:
    """The entries of a directory; none for another file, or if it disappears meanwhile."""
    try:
        return [] if directory.is_symlink() else list(directory.iterdir())
    except OSError:
        return []


def _appeared(project: Path, before: frozenset[str]) -> list[str]:
    """New files in the project, without the placeholders of another running session."""
    new = sorted(_project_names(project) - before)
    return (
        [each for each in new if not _may_be_placeholder(project / each)] if new and _in_use(project) else new
    )


def _may_be_placeholder(path: Path) -> bool:
    try:
        return is_placeholder(str(path), path.lstat())
    except OSError:
        return True  # it has gone


def _in_use(project: Path) -> bool:
    """Whether a session holds the project's lock: looked up, as taking it would be in the way of its end."""
    inode = f":{project.stat().st_ino}"
    with contextlib.suppress(OSError):
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
        return any(line.split()[1] == "FLOCK" and line.split()[-3].endswith(inode) for line in lines)
    return False


def _ghosts(runs: Runs, before: frozenset[str]) -> ProbeOutcome:
    project, until = Path(runs.subject.policy.facts.project), time.monotonic() + GRACE
    while (appeared := _appeared(project, before)) and time.monotonic() < until:
        time.sleep(0.02)  # the monitor of a killed run may still be cleaning up
    return _outcome(
        runs,
        "ghosts",
        "no mount point is left in the project",
        expected="nothing new",
        observed=", ".join(appeared) or "nothing new",
        wrong="the run left something new in the project" if appeared else "",
        evidence=f"{len(before)} names before, the same after",
    )
