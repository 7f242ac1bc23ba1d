"""Proves that usual work can be done under a method: a project, a sandbox and a start for each probe."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright import process
from sandwright.environment import SESSION
from sandwright.errors import CommandFailed, RenderError, ToolMissing
from sandwright.methods import registry
from sandwright.policy.limits import with_kept_limits
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.progress import SILENT, Progress
from sandwright.verify.fixture import Fixture, plant_fixture
from sandwright.verify.image import Provision, host_programs, provide
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.sandbox import materialize, probe_environment
from sandwright.verify.verdict import Verdict
from sandwright.verify.work.judge import ScriptEnd, WorkResult, judge_work, work_outcome
from sandwright.verify.work.probe import WorkProbe, work_probes
from sandwright.verify.work.project import BESIDE, WorkProject

ResolveAt = Callable[[Path, Sequence[str]], ResolvedPolicy]
"""Resolves the policy on this host for another project, with additional settings of this run."""

NOTE = "{}: the probes of work have separate projects, without network, proxy and shims"

_INSIDE = Path(__file__).with_name("inside.sh")


@dataclass(frozen=True)
class _Proof:
    """The data that the probes of one method share."""

    method: str
    resolve: ResolveAt
    fixture: Fixture
    provision: Provision

    def project(self, name: str) -> WorkProject:
        """A new one, planted."""
        root = self.fixture.root / "work" / name.replace("/", "-") / "project"
        project = WorkProject(root, uuid.uuid4().hex, registry.declaration(self.method))
        project.make()
        return project


def prove_work(
    resolve: ResolveAt,
    method: str,
    *,
    probes: Sequence[WorkProbe] | None = None,
    progress: Progress = SILENT,
) -> Iterator[ProbeOutcome]:
    """The verdicts on some probes of work (absent: all shipped ones) with one method.

    A method that can't enforce a probe's needs, or that has dedicated accounts, skips it with the reason.
    """
    probes = work_probes() if probes is None else probes
    if registry.properties(method).own_account:
        reason = "each project needs an account, created by root"
        yield from (work_outcome(each, method, Verdict.SKIPPED, reason) for each in probes)
        return
    with plant_fixture() as fixture:
        none = WorkProject(fixture.root / "work/none/project", "none", registry.declaration(method))
        none.make()
        policy = _work_policy(resolve, none)
        with (
            provide(method, policy, fixture, programs=host_programs()) as provision,
            progress.step(f"work with {method}", len(probes), unit="probes") as step,
        ):
            proof = _Proof(method, resolve, fixture, provision)
            for probe in probes:
                yield _prove_work(proof, probe)
                step.advance(1)


def _work_policy(resolve: ResolveAt, project: WorkProject, settings: Sequence[str] = ()) -> ResolvedPolicy:
    resolved = replace(resolve(project.root, project.settings(settings)), workspace="live")
    whole = with_kept_limits(resolved, project.declaration)
    return replace(whole, credentials=replace(whole.credentials, shims={}, signing=()))


def _prove_work(proof: _Proof, probe: WorkProbe) -> ProbeOutcome:
    project = proof.project(probe.name)
    if (before := _run_on_host(probe.before, project.root, probe)).status != 0:
        missing = next((each for each in probe.needs if " " not in each and not process.find(each)), "")
        verdict = Verdict.SKIPPED if missing else Verdict.INCONCLUSIVE
        reason = f"{missing} is not on the host" if missing else f"cannot create its project: {before}"
        return work_outcome(probe, proof.method, verdict, reason)
    policy_lines = [each.replace("$BESIDE", str(project.root.parent)) for each in probe.policy]
    try:
        policy = _work_policy(proof.resolve, project, (*proof.provision.settings, *policy_lines))
        artifacts = registry.render(policy, proof.method).artifacts
    except RenderError as error:
        return work_outcome(probe, proof.method, Verdict.SKIPPED, f"it cannot enforce this policy: {error}")
    launcher = materialize(artifacts, proof.fixture.artifacts / probe.name.replace("/", "-"))
    beyond = project.beyond(probe.denied)
    probe = replace(probe, denied=BESIDE) if beyond else probe
    result = replace(_run_work(proof, probe, launcher, project.root), beyond=beyond)
    if result.missing and registry.properties(proof.method).root == "host" and process.find(result.missing):
        evidence = f"({result.missing} is on the host, and not inside)"
        return work_outcome(probe, proof.method, Verdict.FAIL, evidence, result)
    after = _run_on_host(probe.after, project.root, probe) if result.work.status == 0 else ScriptEnd(0)
    result = replace(result, after=after, kept=project.changed())
    return judge_work(probe, proof.method, result, registry.find(proof.method)[0])


def _run_work(proof: _Proof, probe: WorkProbe, launcher: Path, project: Path) -> WorkResult:
    word = uuid.uuid4().hex
    environment = {
        **probe_environment(proof.fixture.state),
        **proof.provision.environment,
        SESSION.name: f"verify-{word[:12]}",
    }
    inside = _INSIDE.read_text(encoding="utf-8")
    argv = (str(launcher), "sh", "-c", inside, "sh", word, probe.script, probe.denied.script, *probe.needs)
    try:
        ended = process.run(*argv, check=False, timeout=probe.seconds, env=environment, cwd=project)
    except CommandFailed as failed:
        return WorkResult(
            ScriptEnd(None), ScriptEnd(None), launcher=f"{failed.stderr}\nafter {probe.seconds:g} s"
        )
    return _read_output(ended, word)


def _read_output(ended: process.Result, word: str) -> WorkResult:
    """The results of the two scripts, between the lines that only we can have written."""
    output = ended.stdout.decode(errors="replace")
    ends, lines = [], ""
    for line in output.splitlines(keepends=True):
        marker = line.split() if line.startswith(f"{word} ") else []
        if marker[1:2] == ["missing"]:
            nothing = ScriptEnd(None)
            return WorkResult(nothing, nothing, missing=line.split(maxsplit=2)[2].strip())
        if marker[1:2] == ["end"]:
            ends.append(ScriptEnd(int(marker[2]), lines))
            lines = ""
        else:
            lines += line
    ends += [ScriptEnd(None, lines), ScriptEnd(None)]
    status = "" if ended.status == 0 else f"the launcher ended with {ended.status}\n"
    return WorkResult(ends[0], ends[1], launcher=f"{status}{ended.stderr}")


def _run_on_host(script: str, project: Path, probe: WorkProbe) -> ScriptEnd:
    if not script:
        return ScriptEnd(0)
    try:
        ended = process.run("sh", "-euc", script, check=False, timeout=probe.seconds, cwd=project)
    except (CommandFailed, ToolMissing) as error:
        return ScriptEnd(None, str(error))
    return ScriptEnd(ended.status, f"{ended.stdout.decode(errors='replace')}{ended.stderr}")
