"""Proves that work can be done with a method: a project, a sandbox and a start for each probe."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright import process
from sandwright.errors import CommandFailed, RenderError, ToolMissing
from sandwright.methods import registry
from sandwright.policy.limits import with_kept_limits
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.verify.fixture import Fixture, planted
from sandwright.verify.image import Provision, host_programs, provided
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.sandbox import base_environment, materialize
from sandwright.verify.verdict import Verdict
from sandwright.verify.work.judge import ScriptEnd, WorkResult, judge_work, work_outcome
from sandwright.verify.work.probe import WorkProbe, work_probes

ResolveAt = Callable[[Path, Sequence[str]], ResolvedPolicy]
"""The policy on this host for another project, with some settings of this run more."""

NOTE = "{}: the probes of work have projects of their own, without network, proxy and shims"

_INSIDE = Path(__file__).with_name("inside.sh")
_SETTINGS = (
    'filesystem.write=["...", "$PROJECT"]',
    'filesystem.readonly=["$PROJECT/kept"]',
    'filesystem.deny=["$PROJECT/secret"]',
    'filesystem.protect=[".git/hooks", ".envrc"]',
    "network.mode=none",
)
"""What all of them need of a policy, and what is denied beside them; `outside` may be read."""

_CONFIGURATION = 'filesystem.protect=[".git/config", ".git/objects/info/alternates"]'
"""The same, for those that aren't granted it."""


@dataclass(frozen=True)
class _Proof:
    """What the probes of one method share."""

    method: str
    resolve: ResolveAt
    fixture: Fixture
    provision: Provision


def prove_work(
    resolve: ResolveAt,
    method: str,
    *,
    probes: Sequence[WorkProbe] | None = None,
) -> Iterator[ProbeOutcome]:
    """The verdicts on some probes of work (absent: all that ship) with one method.

    A method that can't enforce what a probe needs, or that has accounts of its own, skips it with the reason.
    """
    probes = work_probes() if probes is None else probes
    if registry.properties(method).own_account:
        reason = "each project needs an account that root made for it"
        yield from (work_outcome(each, method, Verdict.SKIPPED, reason) for each in probes)
        return
    with planted() as fixture:
        project = _project(fixture, "none", uuid.uuid4().hex)
        policy = _policy(resolve, method, project, ())
        with provided(method, policy, fixture, programs=host_programs()) as provision:
            proof = _Proof(method, resolve, fixture, provision)
            for probe in probes:
                yield _proved(proof, probe)


def _project(fixture: Fixture, name: str, word: str) -> Path:
    """A new project, with what is read-only and denied in it, and what lies outside."""
    project = fixture.root / "work" / name.replace("/", "-") / "project"
    for directory in (project / "kept", project / "secret", project.with_name("outside")):
        directory.mkdir(parents=True)
        (directory / "file").write_text(f"{word}\n", encoding="utf-8")
    return project


def _policy(resolve: ResolveAt, method: str, project: Path, settings: Sequence[str]) -> ResolvedPolicy:
    outside = f"filesystem.read={json.dumps(['...', str(project.with_name('outside'))])}"
    own = _joined([*_SETTINGS, outside, *settings])
    if not any(each.startswith("filesystem.git=") and '"config"' in each for each in settings):
        own = _joined([*own, _CONFIGURATION])
    whole = with_kept_limits(resolve(project, own), registry.declaration(method))
    return replace(whole, credentials=replace(whole.credentials, shims={}))


def _joined(settings: Sequence[str]) -> list[str]:
    """Settings of which none sets what another does: lists are joined, of other values the last is taken."""
    found: dict[str, str] = {}
    for setting in settings:
        field, _, value = setting.partition("=")
        if value.startswith("[") and field in found:
            items = dict.fromkeys([*json.loads(found[field]), *json.loads(value)])
            value = json.dumps(list(items))
        found[field] = value
    return [f"{field}={value}" for field, value in found.items()]


def _proved(proof: _Proof, probe: WorkProbe) -> ProbeOutcome:
    word = uuid.uuid4().hex
    project = _project(proof.fixture, probe.name, word)
    if (before := _on_host(probe.before, project, probe)).status != 0:
        missing = next((each for each in probe.needs if " " not in each and not process.find(each)), "")
        verdict = Verdict.SKIPPED if missing else Verdict.INCONCLUSIVE
        reason = f"{missing} is not on the host" if missing else f"its project could not be made: {before}"
        return work_outcome(probe, proof.method, verdict, reason)
    own = [each.replace("$BESIDE", str(project.parent)) for each in probe.policy]
    try:
        policy = _policy(proof.resolve, proof.method, project, (*proof.provision.settings, *own))
        artifacts = registry.render(policy, proof.method).artifacts
    except RenderError as error:
        return work_outcome(probe, proof.method, Verdict.SKIPPED, f"it can't enforce this policy: {error}")
    launcher = materialize(artifacts, project.with_name("artifacts"))
    result = _started(proof, probe, launcher, project)
    if result.missing and registry.properties(proof.method).root == "host" and process.find(result.missing):
        evidence = f"({result.missing} is on the host, and not inside)"
        return work_outcome(probe, proof.method, Verdict.FAIL, evidence, result)
    after = _on_host(probe.after, project, probe) if result.work.status == 0 else ScriptEnd(0)
    return judge_work(probe, proof.method, replace(result, after=after, kept=_changed(project, word)))


def _started(proof: _Proof, probe: WorkProbe, launcher: Path, project: Path) -> WorkResult:
    word = uuid.uuid4().hex
    environment = {
        **base_environment(proof.fixture.state),
        **proof.provision.environment,
        "SANDWRIGHT_SESSION": f"verify-{word[:12]}",
    }
    inside = _INSIDE.read_text(encoding="utf-8")
    argv = (str(launcher), "sh", "-c", inside, "sh", word, probe.script, probe.denied.script, *probe.needs)
    try:
        ended = process.run(*argv, check=False, timeout=probe.seconds, env=environment, cwd=project)
    except CommandFailed as failed:
        return WorkResult(
            ScriptEnd(None), ScriptEnd(None), launcher=f"{failed.stderr}\nafter {probe.seconds:g} s"
        )
    return _read(ended, word)


def _read(ended: process.Result, word: str) -> WorkResult:
    """What the two scripts said, between the lines that only we can have written."""
    output = ended.stdout.decode(errors="replace")
    ends, said = [], ""
    for line in output.splitlines(keepends=True):
        own = line.split() if line.startswith(f"{word} ") else []
        if own[1:2] == ["missing"]:
            nothing = ScriptEnd(None)
            return WorkResult(nothing, nothing, missing=line.split(maxsplit=2)[2].strip())
        if own[1:2] == ["end"]:
            ends.append(ScriptEnd(int(own[2]), said))
            said = ""
        else:
            said += line
    ends += [ScriptEnd(None, said), ScriptEnd(None)]
    status = "" if ended.status == 0 else f"the launcher ended with {ended.status}\n"
    return WorkResult(ends[0], ends[1], launcher=f"{status}{ended.stderr}")


def _on_host(script: str, project: Path, probe: WorkProbe) -> ScriptEnd:
    if not script:
        return ScriptEnd(0)
    try:
        ended = process.run("sh", "-euc", script, check=False, timeout=probe.seconds, cwd=project)
    except (CommandFailed, ToolMissing) as error:
        return ScriptEnd(None, str(error))
    return ScriptEnd(ended.status, f"{ended.stdout.decode(errors='replace')}{ended.stderr}")


def _changed(project: Path, word: str) -> str:
    """What of the closed places is another than it was."""
    for directory in (project / "kept", project / "secret", project.with_name("outside")):
        try:
            names = [each.name for each in directory.iterdir()]
            content = (directory / "file").read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return f"{directory.name}: {error.strerror}"
        if names != ["file"] or content != f"{word}\n":
            return f"{directory.name} was changed"
    return ""
