"""Support for tests of proofs: a policy in a separate project, its proof, and the failing results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sandwright.api import Policy
from sandwright.launcher.plan import BackstopPlan, parse_plan
from sandwright.policy.collect import collect_facts
from sandwright.policy.facts import HostFacts
from sandwright.policy.load import layer, run_layer
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.verify.prove import Resolve, Weaken, prove
from sandwright.verify.subject import ProofSubject
from sandwright.verify.verdict import Verdict
from support.weakening import launcher, plan

Prove = Callable[..., dict[str, str]]
"""Proves a method with a policy's text, weakened or not; returns the evidence of each failing probe."""


def resolver(text: str, project: Path) -> Resolve:
    """Resolves a policy in a project, with additional settings of a run."""
    project.mkdir(exist_ok=True)
    (project / "sandbox.yaml").write_text(text)

    def resolve(
        settings: Sequence[str], other: Callable[[HostFacts], HostFacts] | None = None
    ) -> ResolvedPolicy:
        added = run_layer(settings)
        layers = [layer(text, file=str(project / "sandbox.yaml")), *([added] if added else [])]
        policy = Policy.from_layers(layers)
        facts = collect_facts(policy, project=project)
        return policy.resolve(facts if other is None else other(facts))

    return resolve


def red(method: str, text: str, project: Path, weaken: Weaken | None, *, runs: bool) -> dict[str, str]:
    """The probes that do not pass, with their evidence; many others must pass.

    Links in Git directories, which some methods cannot prevent, have separate tests.
    """
    secrets = runs and weaken is None  # weakenings of those have separate tests
    without = None if weaken is None else unwatched(weaken)
    proof = prove(resolver(text, project), method, weaken=without, runs=runs, secrets=secrets)
    assert sum(each.verdict is Verdict.PASS for each in proof.outcomes) > 50
    return {
        each.probe: each.evidence
        for each in proof.outcomes
        if each.verdict is not Verdict.PASS and each.probe != "links/git: not held"
    }


def unwatched(weaken: Weaken, *, walled: bool = False) -> Weaken:
    """Weakened launchers that don't compare the mounts: otherwise they would start no command.

    `walled`: the second wall stays.
    """
    says_so = "if (options.gate != NULL)\n        open_gate(options.gate);\n    "
    says_so += "char said;\n    while (write(over, (char[]){MOUNTED}, 1) == 1 && read(over, &said, 1) > 0);"
    unwatching = launcher(
        "watch.c", "    raise_limit();\n", f"    raise_limit();\n    {says_so}\n    _exit(0);\n"
    )

    def changed(subject: ProofSubject, artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
        artifacts = weaken(subject, artifacts)
        plans = [parse_plan(each.content) for each in artifacts if each.name == "launch.plan"]
        if not walled and any(each.backstop.enabled for each in plans):
            artifacts = plan(lambda _, whole: replace(whole, backstop=BackstopPlan()))(subject, artifacts)
        return unwatching(subject, artifacts) if plans else artifacts

    return changed
