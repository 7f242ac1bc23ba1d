"""Proves a policy with a method: plants, renders, starts, attempts, judges."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sandwright.egress.proxy import proxy, started_for
from sandwright.errors import RenderError, ToolMissing, UsageError
from sandwright.policy.limits import lowered, with_kept_limits
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import check_expressible
from sandwright.render.artifact import Artifact
from sandwright.render.methods import render
from sandwright.runtime.probe.protocol import Answer
from sandwright.verify.bridging import Bridging, bridging, untried
from sandwright.verify.catalogue import catalogue
from sandwright.verify.cloud import cases, home
from sandwright.verify.ground import Ground, planted
from sandwright.verify.image import provided
from sandwright.verify.lifecycle import Runs, lifecycle
from sandwright.verify.outcome import Outcome, judge, skipped
from sandwright.verify.probe import Family, Probe
from sandwright.verify.sandbox import Batch, Sandbox, base_environment, materialize
from sandwright.verify.subject import Subject, canaries
from sandwright.verify.tokens import Bridged, bridged, tokens
from sandwright.verify.tokens import settings as shim_settings
from sandwright.verify.verdict import Verdict
from sandwright.verify.witnesses import listening

Resolve = Callable[..., ResolvedPolicy]
"""The policy on this host, with some settings of this run more; and where a second argument is given, on what
that makes of the host's facts."""

Weaken = Callable[[Subject, tuple[Artifact, ...]], tuple[Artifact, ...]]
"""Changes artifacts before they are started, by which it is seen that probes can fail."""


Rendered = Callable[..., Sandbox]
"""Renders a policy under a name of its own, and gives the sandbox, with a bridge or without one."""


@dataclass(frozen=True)
class Proof:
    """What came of one method.

    Outcomes in order, what it makes of the policy otherwise, and what we added.
    """

    method: str
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]


def prove(
    resolve: Resolve,
    method: str,
    *,
    weaken: Weaken | None = None,
    runs: bool = True,
    secrets: bool | None = None,
) -> Proof:
    """Prove one method with all its probes.

    Without `runs` only with those that are attempts inside, and without `secrets` (absent: as `runs`) none of
    the bridge and of cloud accounts. Raise RenderError when the method can't enforce the policy.
    """
    with contextlib.ExitStack() as stack:
        ground = stack.enter_context(planted())
        listeners = stack.enter_context(listening(ground.read, ground.word))
        provision = stack.enter_context(provided(method, resolve(()), ground))
        settings = [*ground.settings(), *provision.settings]
        if lower := lowered(with_kept_limits(resolve(settings), method)):
            settings += lower
        whole = resolve(settings)
        policy = with_kept_limits(whole, method)
        subject = Subject(method, policy, ground, listeners, canaries(policy))
        environment = {
            **base_environment(ground.state),
            **provision.environment,
            "SANDWRIGHT_SESSION": f"verify-{ground.word[:12]}",
            **subject.canaries.environment,
        }

        if policy.network.mode == "proxy" and started_for(method):
            environment |= stack.enter_context(proxy(policy)).environment
        bridge = stack.enter_context(_bridge(resolve, settings, ground)) if policy.credentials.shims else None

        def rendered(name: str, policy: ResolvedPolicy, given: Bridged | None = bridge) -> Sandbox:
            artifacts = render(policy, method).artifacts
            artifacts = artifacts if weaken is None else weaken(subject, artifacts)
            launcher = materialize(artifacts, ground.artifacts / name)
            own, inherited = (given.environment, (given.bridge.channel,)) if given else ({}, ())
            return Sandbox(method, launcher, ground.program, {**environment, **own}, inherited)

        sandbox = rendered("rendered", policy)
        outcomes = list(_proved(catalogue(subject), sandbox))
        if runs and outcomes[0].verdict is Verdict.PASS:
            timed = policy.resources.time is not None
            short = rendered("short", resolve([*settings, "resources.time=1s"])) if timed else None
            outcomes += lifecycle(Runs(subject, sandbox, short))
        if runs if secrets is None else secrets:
            outcomes += _cloud(subject, resolve, provision.settings, rendered)
            outcomes += _bridging(subject, lambda: resolve([*settings, *shim_settings()]), rendered, bridge)
        findings = (str(finding) for finding in check_expressible(whole, method))
        notes = [f"proved with lower limits than the preset's: {', '.join(lower)}"] if lower else []
        return Proof(method, tuple(outcomes), (*findings, *notes, _granted(subject), *provision.notes))


def _bridge(
    resolve: Resolve, settings: Sequence[str], ground: Ground
) -> contextlib.AbstractContextManager[Bridged]:
    """A bridge for the policy's own shims and the planted one."""
    return bridged(resolve([*settings, *shim_settings()]), ground, tokens())


def _bridging(
    subject: Subject, policy: Callable[[], ResolvedPolicy], rendered: Rendered, given: Bridged | None
) -> Iterator[Outcome]:
    """What is proved with one shim more, or why it can't be."""
    with contextlib.ExitStack() as stack:
        try:
            own = policy()
            bridge = given or stack.enter_context(bridged(own, subject.ground, tokens()))
            sandbox = rendered("bridged", own, bridge)
        except (RenderError, UsageError, ToolMissing) as error:
            yield untried(subject.method, str(error))
            return
        yield from bridging(Bridging(replace(subject, policy=own), sandbox, bridge))


def _cloud(
    subject: Subject, resolve: Resolve, settings: Sequence[str], rendered: Rendered
) -> Iterator[Outcome]:
    """What is proved of cloud accounts, in a sandbox that is given them and in one that is not."""
    own = home(subject.ground)
    for mode, read, made in cases(own):
        words = [*subject.ground.settings(*read), *settings, f"credentials.cloud={mode}"]
        policy = resolve(words, own.seen)
        probes = made(replace(subject, policy=policy), own)
        try:
            sandbox = rendered(f"cloud-{mode}", policy)
        except RenderError as error:
            yield from (skipped(each, subject.method, str(error)) for each in probes)
            continue
        _, found = _answers(probes, sandbox)
        yield from (judge(each, subject.method, own) for each, own in zip(probes, found, strict=True))


def _granted(subject: Subject) -> str:
    return (
        f"{subject.method}: beside what the policy grants, this run granted planted files below "
        f"{subject.ground.root}, among them the probe program"
    )


def _proved(probes: Sequence[Probe], sandbox: Sandbox) -> Iterator[Outcome]:
    """The verdict on whether it starts at all, then on each probe: those that bear company in one start.

    Those that don't come first: a breach in the others could take away what later starts need.
    """
    tried = [probe for probe in probes if not probe.skip]
    answers = {probe.name: _answers([probe], sandbox)[1][0] for probe in tried if probe.alone}
    together = [probe for probe in tried if not probe.alone]
    batch, shared = _answers(together, sandbox)
    answers |= {probe.name: own for probe, own in zip(together, shared, strict=True)}
    yield _started(batch, sandbox)
    for probe in probes:
        yield judge(probe, sandbox.method, answers.get(probe.name, ()))


def _answers(probes: Sequence[Probe], sandbox: Sandbox) -> tuple[Batch, list[tuple[Answer, ...]]]:
    """The answers to each probe's steps, from one start."""
    batch = sandbox.attempt([step.attempt for probe in probes for step in probe.asked])
    remaining = iter(batch.answers)
    return batch, [tuple(next(remaining) for _ in probe.asked) for probe in probes]


def _started(batch: Batch, sandbox: Sandbox) -> Outcome:
    answered = sum(each.kind != "none" for each in batch.answers)
    good = batch.status == 0 and answered == len(batch.answers)
    ended = "ran out of time" if batch.status is None else f"ended with {batch.status}"
    return Outcome(
        probe="lifecycle/starts",
        method=sandbox.method,
        family=Family.LIFECYCLE,
        verdict=Verdict.PASS if good else Verdict.FAIL,
        expected="every attempt is answered",
        observed=f"{answered} of {len(batch.answers)} answered",
        evidence=f"the launcher {ended}\n{batch.stderr}".strip(),
        about="the sandbox starts, and the probe program runs in it to its end",
    )
