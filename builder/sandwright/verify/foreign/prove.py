"""Proves somebody else's sandbox command: plants, writes its settings, starts it, attempts, judges."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sandwright import process
from sandwright.errors import CommandFailed, UsageError
from sandwright.policy.collect import collect
from sandwright.policy.load import layer, run_layer
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.runtime.empty_image import empty_image
from sandwright.runtime.probe.protocol import ProbeAnswer, attempt
from sandwright.verify.about import PolicyOrigin
from sandwright.verify.catalogue import catalogue
from sandwright.verify.fixture import Fixture, planted
from sandwright.verify.foreign.answers import wanted
from sandwright.verify.foreign.outside import changes_host, outside, without_hosts_own
from sandwright.verify.foreign.promises import Promises, filled, policy_text
from sandwright.verify.foreign.sandbox import MARK, SubjectSandbox
from sandwright.verify.foreign.subject import ForeignSubject, check_names, without_promise
from sandwright.verify.lifecycle import COMMAND_RUNS, command_runs
from sandwright.verify.listeners import listening
from sandwright.verify.outcome import ProbeOutcome, judge
from sandwright.verify.probe import Probe
from sandwright.verify.prove import answers_of, start_outcome
from sandwright.verify.report import PolicyReport
from sandwright.verify.runs import Runs
from sandwright.verify.sandbox import Batch, base_environment
from sandwright.verify.subject import canaries
from sandwright.verify.verdict import Verdict

PLANTED = Path("/var/tmp")  # noqa: S108 - where sandboxes neither have a directory of their own nor grant one
"""Where files are planted, below a new directory."""


def prove_subject(promises: Promises, words: Sequence[str]) -> PolicyReport:
    """Prove a command by its promises. `words` are those of `--subject`; none are those of the promises.

    Raise UsageError for a command that is none, ToolMissing for one that is not here, and what loading a
    policy raises.
    """
    began, started = time.monotonic(), datetime.now(UTC)
    given = words or promises.command
    if not given:
        raise UsageError(f"{promises.name} has no command; name one with --subject")
    version = _version(promises)
    outcomes = tuple(_proved(promises, given))
    return PolicyReport(
        policy=promises.name,
        methods=(promises.name,),
        outcomes=outcomes,
        notes=tuple(_notes(promises, version, given)),
        started=started.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
        host=f"{platform.node()}: {platform.system()} {platform.release()} {platform.machine()}",
        origin=PolicyOrigin(project=str(Path.cwd()), text=policy_text(promises)),
    )


@contextlib.contextmanager
def _stage(promises: Promises, given: Sequence[object]) -> Iterator[tuple[ForeignSubject, SubjectSandbox]]:
    """Newly planted files and listeners, and the command for them."""
    with _planted(promises) as fixture, listening(fixture.read, fixture.write, fixture.word) as listeners:
        policy = _resolved(promises, fixture)
        subject = ForeignSubject(
            promises.name, policy, fixture, listeners, canaries(policy), promises=promises
        )
        with _sandbox(subject, given) as sandbox:
            try:
                yield subject, sandbox
            finally:
                sandbox.end_all()


@contextlib.contextmanager
def _planted(promises: Promises) -> Iterator[Fixture]:
    """The planted files, where the promises say or in a directory of this run's own."""
    root = Path(promises.at) if promises.at else None
    if root and (not root.is_absolute() or os.path.lexists(root) or not root.parent.is_dir()):
        raise UsageError(f"{promises.name}: at: {root} must be an absolute path at which nothing is yet")
    with planted(root.parent if root else PLANTED) as fixture:
        if root is None:
            yield fixture
            return
        fixture.root.rename(root)
        try:
            yield replace(fixture, root=root.resolve())
        finally:
            root.rename(fixture.root)


def _resolved(promises: Promises, fixture: Fixture) -> ResolvedPolicy:
    """The policy that it was given, with what is planted."""
    own = layer(policy_text(promises), file=f"{promises.name}: policy")
    added = run_layer(fixture.settings())
    merged = MergedPolicy.from_layers([own, *([added] if added else [])])
    return merged.resolve(collect(merged, project=fixture.write))


@contextlib.contextmanager
def _sandbox(subject: ForeignSubject, given: Sequence[object]) -> Iterator[SubjectSandbox]:
    """The command, with this run's paths in its words and its settings."""
    fixture, promises = subject.fixture, subject.promises
    with contextlib.ExitStack() as stack:
        places = {
            "root": str(fixture.root),
            "bin": str(fixture.probe),
            "read": str(fixture.read),
            "write": str(fixture.write),
            "files": str(fixture.artifacts),
        }
        if promises.image:
            image = empty_image(promises.image, subject.policy.facts.platform, purpose="subject")
            places["image"] = stack.enter_context(image)
        groups = _groups(subject)
        for name, content in promises.files.items():
            value = filled(content, places, groups)
            text = value if isinstance(value, str) else json.dumps(value, indent=2)
            (fixture.artifacts / name).write_text(text, encoding="utf-8")
        environment = {
            **base_environment(fixture.state),
            **subject.canaries.environment,
            MARK: fixture.word,
        }
        yield SubjectSandbox(
            promises.name,
            Path("/nonexistent"),
            fixture.program,
            environment,
            cwd=Path(filled(promises.cwd, places, groups)) if promises.cwd else None,
            prefix=tuple(map(str, filled(list(given), places, groups))),
            root=fixture.root,
            word=fixture.word,
        )


def _groups(subject: ForeignSubject) -> Mapping[str, Sequence[str]]:
    """The paths of each kind: those that the policy lists and that are there, parents first."""
    rules = [each for each in subject.policy.filesystem.rules if each.origin == "listed"]
    facts = subject.policy.facts
    denied = [each.path for each in rules if each.kind == "deny" and facts.kind(each.path)]
    return {
        "denied": denied,
        "denied-directories": [each for each in denied if facts.kind(each) == "directory"],
        "denied-files": [each for each in denied if facts.kind(each) != "directory"],
        "readonly": [each.path for each in rules if each.kind == "readonly" and facts.kind(each.path)],
        "readable": [str(subject.fixture.probe), str(subject.fixture.read)],
    }


def _proved(promises: Promises, given: Sequence[object]) -> Iterator[ProbeOutcome]:
    """The verdicts: whether it starts, then on each probe, then on runs as a whole.

    What is red is attempted once more, each by itself and on newly planted files, as a breach takes away what
    others look at; the second verdict counts.
    """
    with _stage(promises, given) as (subject, sandbox):
        control = outside(
            subject, lambda fixture: _resolved(promises, fixture), base_environment(subject.fixture.state)
        )
        probes = list(_probes(subject, sandbox))
        check_names(promises, [*(each.name for each in probes), *COMMAND_RUNS])
        batch, answers = _attempted(probes, sandbox)
        found = [judge(each, promises.name, answers.get(each.name, ()), wanted=wanted) for each in probes]
        start = start_outcome(batch, sandbox)
    if start.verdict is Verdict.PASS:
        found = list(without_promise(found, probes, promises))
        few = sum(each.verdict in _RED for each in found) <= _MOST_AGAIN
        found = [_again(each, promises, given) if few and each.verdict in _RED else each for each in found]
        with _stage(promises, given) as (subject, sandbox):
            found += command_runs(Runs(subject, sandbox, None))
    found = list(without_hosts_own(found, probes, control))
    yield from without_promise([start, *found], probes, promises)


_MOST_AGAIN = 15
"""Red probes that are attempted again: where there are more, it is no accident."""

_RED = (Verdict.FAIL, Verdict.INCONCLUSIVE)


def _again(outcome: ProbeOutcome, promises: Promises, given: Sequence[object]) -> ProbeOutcome:
    """The verdict on one probe, by itself."""
    with _stage(promises, given) as (subject, sandbox):
        probe = next((each for each in _probes(subject, sandbox) if each.name == outcome.probe), None)
        if probe is None:
            return outcome
        _, (answers,) = answers_of([probe], sandbox)
        return judge(probe, promises.name, answers, wanted=wanted)


def _probes(subject: ForeignSubject, sandbox: SubjectSandbox) -> Iterator[Probe]:
    """The catalogue's, but for paths that no list names: nobody told the subject of those."""
    unlisted = {
        f"files/{each.kind}: {each.path}"
        for each in subject.policy.filesystem.rules
        if each.origin != "listed"
    }
    yield from (each for each in _harmless(catalogue(subject), sandbox) if each.name not in unlisted)


_KEPT_OFF = "it is in this host's own namespaces, and root's attempt would change the host"


def _harmless(probes: Sequence[Probe], sandbox: SubjectSandbox) -> Iterator[Probe]:
    """The probes; root's that would change this host are skipped where its namespaces are not left."""
    kinds = ("mnt", "uts")
    asked = [attempt("readlink", f"/proc/self/ns/{kind}") for kind in kinds]
    inside = sandbox.attempt(asked).answers
    own = [os.fsencode(Path(f"/proc/self/ns/{kind}").readlink()) for kind in kinds]
    apart = all(each.kind == "ok" and each.value != here for each, here in zip(inside, own, strict=True))
    for probe in probes:
        yield probe if apart or not changes_host(probe) else replace(probe, skip=_KEPT_OFF)


def _attempted(
    probes: Sequence[Probe], sandbox: SubjectSandbox
) -> tuple[Batch, Mapping[str, tuple[ProbeAnswer, ...]]]:
    """The start that most probes share, and the answers to all that were tried, by name."""
    tried = [probe for probe in probes if not probe.skip]
    alone = {probe.name: answers_of([probe], sandbox)[1][0] for probe in tried if probe.alone}
    together = [probe for probe in tried if not probe.alone]
    batch, shared = answers_of(together, sandbox)
    return batch, alone | {probe.name: own for probe, own in zip(together, shared, strict=True)}


def _version(promises: Promises) -> str:
    """What it says of its version. Raise ToolMissing where it is not here."""
    if not promises.version:
        return ""
    try:
        said = process.run(*promises.version, check=False, timeout=60.0)
    except CommandFailed:
        return ""
    return next((line.strip() for line in f"{said.text}\n{said.stderr}".splitlines() if line.strip()), "")


def _shown(given: Sequence[object]) -> str:
    """A command as its promises write it."""
    words = (
        f"[{' '.join(map(str, each['words']))} for each of {each['for']}]"
        if isinstance(each, Mapping)
        else str(each)
        for each in given
    )
    return " ".join(words)


def _notes(promises: Promises, version: str, given: Sequence[object]) -> Iterator[str]:
    """What a reader must know besides."""
    name = promises.name
    yield f"{name}: {promises.about}"
    if version:
        yield f"{name}: its version: {version}"
    yield f"{name}: started by uid {os.geteuid()} as: {_shown(given)}"
    for what, reason in promises.not_promised.items():
        yield f"{name}: {what} is not promised: {reason}"
