"""Proves a policy with a method: plants, renders, starts, attempts, judges."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright.egress import proxy
from sandwright.environment import SESSION
from sandwright.errors import RenderError, SandwrightError, ToolMissing, UsageError
from sandwright.launcher.run_document import RunDocument, handed_over
from sandwright.methods import registry
from sandwright.methods.contract import RemoteCanary
from sandwright.policy.declaration import Declaration
from sandwright.policy.facts import HostFacts
from sandwright.policy.limits import lowered_limits, with_kept_limits
from sandwright.policy.live_entries import observe
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import check_expressible
from sandwright.render.artifact import Artifact
from sandwright.runtime.probe.protocol import ProbeAnswer
from sandwright.verify.bridging import Bridging, prove_bridge, skipped_bridge
from sandwright.verify.catalogue import catalogue
from sandwright.verify.cloud import cloud_cases, plant_home
from sandwright.verify.fixture import Fixture, plant_fixture
from sandwright.verify.free_ports import ports_notes, replaced_ports, with_ports
from sandwright.verify.host_process import host_process
from sandwright.verify.image import provide
from sandwright.verify.lifecycle import lifecycle
from sandwright.verify.listeners import canary_listeners
from sandwright.verify.messages import message_outcomes
from sandwright.verify.outcome import ProbeOutcome, judge, skipped
from sandwright.verify.probe import Family, Probe
from sandwright.verify.requests import request_outcomes
from sandwright.verify.reserved_state import plant_files
from sandwright.verify.runs import Runs
from sandwright.verify.sandbox import Batch, RenderedSandbox, is_native, materialize, probe_environment
from sandwright.verify.subject import Canaries, ProofSubject, canaries
from sandwright.verify.tokens import Bridged, start_bridge, tokens
from sandwright.verify.tokens import settings as shim_settings
from sandwright.verify.verdict import Verdict
from sandwright.verify.workspace import over_project, workspace_outcomes

Resolve = Callable[..., ResolvedPolicy]
"""Resolves the policy on this host, with additional settings of this run; a second argument changes the
host's facts first."""

Weaken = Callable[[ProofSubject, tuple[Artifact, ...]], tuple[Artifact, ...]]
"""Changes artifacts before they are started, to show that probes can fail."""


Rendered = Callable[..., RenderedSandbox]
"""Renders a policy under a new name, and returns the sandbox, with a bridge or without one."""


@dataclass(frozen=True)
class MethodProof:
    """The proof of one method: its outcomes, notes, and weaker rules. Outcomes are in order.

    Notes are about rules that it enforces more strictly and about our additions. It enforces the weaker rules
    in part or not at all.
    """

    method: str
    outcomes: tuple[ProbeOutcome, ...]
    notes: tuple[str, ...]
    weaker: tuple[str, ...] = ()


def _planted_for(method: str, declaration: Declaration) -> contextlib.AbstractContextManager[Fixture]:
    """The planted files; in an outer container, mount points for them can be made in its /tmp alone."""
    parent = Path("/tmp") if registry.properties(method).outer_container else None  # noqa: S108
    return plant_fixture(parent, inside=declaration.of("filesystem.readonly").level != "cannot")


def prove(
    resolve: Resolve,
    method: str,
    *,
    weaken: Weaken | None = None,
    runs: bool = True,
    secrets: bool | None = None,
) -> MethodProof:
    """Prove one method with all its probes.

    Without `runs`, only with those that are attempts inside; without `secrets` (default: as `runs`), with
    none of the bridge and of cloud accounts. Raise RenderError if the method can't enforce the policy.
    """
    declaration = registry.declaration(method)
    reviewed, resolve = resolve, over_project(resolve)
    with contextlib.ExitStack() as stack:
        fixture = stack.enter_context(_planted_for(method, declaration))
        if registry.properties(method).copies_project:
            resolve = at_fixture(resolve, fixture)
            runs, secrets = False, False
        ports = replaced_ports(resolve(()))
        resolve = with_ports(resolve, ports)
        listeners = stack.enter_context(canary_listeners(fixture.read, fixture.write, fixture.word))
        provision = stack.enter_context(provide(method, resolve(()), fixture))
        settings = [*fixture.settings(), *provision.settings]
        if lower := lowered_limits(with_kept_limits(resolve(settings), declaration)):
            settings += lower
        whole = resolve(settings)
        policy = with_kept_limits(whole, declaration)
        names, remote = _canaries(stack, method, policy)
        reserved = stack.enter_context(plant_files(fixture.word))
        outside = stack.enter_context(host_process())
        subject = ProofSubject(
            method, policy, fixture, listeners, names, remote, reserved, host_process=outside
        )
        environment = {
            **probe_environment(fixture.state),
            **provision.environment,
            SESSION.name: f"verify-{fixture.word[:12]}",
            **subject.canaries.environment,
        }

        document = RunDocument(mcp=policy.mcp_tools is not None)
        if policy.network.mode == "proxy" and registry.proxy_starter(method, policy) == "session":
            running = stack.enter_context(proxy(policy))
            environment |= running.environment
            document = replace(document, egress=str(running.directory), authorities=running.authorities)
        bridge = (
            stack.enter_context(_start_bridge(resolve, settings, fixture))
            if policy.credentials.needs_bridge
            else None
        )

        def rendered(
            name: str, policy: ResolvedPolicy, started_bridge: Bridged | None = bridge
        ) -> RenderedSandbox:
            artifacts = registry.render(policy, method).artifacts
            artifacts = artifacts if weaken is None else weaken(subject, artifacts)
            launcher = materialize(artifacts, fixture.artifacts / name)
            handed = document if started_bridge is None else started_bridge.document(document)
            return RenderedSandbox(
                *(
                    method,
                    launcher,
                    fixture.program,
                    {**environment, **(started_bridge.environment if started_bridge else {})},
                ),
                (started_bridge.bridge.channel,) if started_bridge else (),
                copies_project=bool(registry.properties(method).copies_project),
                document=stack.enter_context(handed_over(handed)) if is_native(launcher) else None,
            )

        sandbox = rendered("rendered", policy)
        outcomes = list(_prove_probes(catalogue(subject), sandbox))
        if runs and outcomes[0].verdict is Verdict.PASS:
            timed = policy.resources.time is not None
            short = rendered("short", resolve([*settings, "resources.time=1s"])) if timed else None
            outcomes += lifecycle(Runs(subject, sandbox, short))
        if runs if secrets is None else secrets:
            outcomes += _cloud(subject, resolve, provision.settings, rendered)
            outcomes += _bridging(subject, lambda: resolve([*settings, *shim_settings()]), rendered, bridge)
        if reviewed(()).workspace == "review":
            outcomes += workspace_outcomes(reviewed, settings, fixture, method, rendered, document=document)
        outcomes += (
            *(request_outcomes(resolve, method) if document.authorities else ()),
            *message_outcomes(policy.mcp_tools, sandbox),
        )
        if registry.properties(method).copies_project:
            registry.backend(method).purge(policy)
        stricter, weaker = findings(whole, declaration)
        notes = [f"proved with lower limits than the preset's: {', '.join(lower)}"] if lower else []
        notes = [*stricter, *notes, *ports_notes(method, ports), _granted_note(subject), *provision.notes]
        return MethodProof(method, tuple(outcomes), tuple(notes), weaker)


def _canaries(
    stack: contextlib.ExitStack, method: str, policy: ResolvedPolicy
) -> tuple[Canaries, RemoteCanary | str]:
    """The variables that are planted, and for a method on another machine a listener there."""
    names = canaries(policy)
    if not registry.properties(method).copies_project:
        return names, ""
    return Canaries({}, {**names.withheld, **names.passed}), _remote_canary(stack, method, policy)


def _remote_canary(stack: contextlib.ExitStack, method: str, policy: ResolvedPolicy) -> RemoteCanary | str:
    """A listener where the sandbox will run, or why there is none."""
    try:
        return stack.enter_context(registry.backend(method).canary(policy)) or ""
    except SandwrightError as error:
        return f"no listener could be started beside the sandbox: {error}"


def at_fixture(resolve: Resolve, fixture: Fixture) -> Resolve:
    """The same function with the planted files as the project."""

    def resolved(
        settings: Sequence[str], other: Callable[[HostFacts], HostFacts] = lambda facts: facts
    ) -> ResolvedPolicy:
        root = str(fixture.root)
        return resolve(settings, lambda facts: other(observe(replace(facts, project=root, cwd=root), [root])))

    return resolved


def findings(policy: ResolvedPolicy, declaration: Declaration) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rules that a method enforces more strictly, and those that it enforces in part or not at all.

    Raise RenderError if it can't enforce the policy.
    """
    found = check_expressible(policy, declaration)
    weaker = tuple(str(each) for each in found if each.kind in ("partly", "degraded"))
    return tuple(str(each) for each in found if each.kind not in ("partly", "degraded")), weaker


def _start_bridge(
    resolve: Resolve, settings: Sequence[str], fixture: Fixture
) -> contextlib.AbstractContextManager[Bridged]:
    """A bridge for the policy's own shims and the planted one."""
    return start_bridge(resolve([*settings, *shim_settings()]), fixture, tokens())


def _bridging(
    subject: ProofSubject,
    policy: Callable[[], ResolvedPolicy],
    rendered: Rendered,
    started_bridge: Bridged | None,
) -> Iterator[ProbeOutcome]:
    """The proof with one more shim, or why it is impossible."""
    with contextlib.ExitStack() as stack:
        try:
            shim_policy = policy()
            bridge = started_bridge or stack.enter_context(
                start_bridge(shim_policy, subject.fixture, tokens())
            )
            sandbox = rendered("bridged", shim_policy, bridge)
        except (RenderError, UsageError, ToolMissing) as error:
            yield skipped_bridge(subject.method, str(error))
            return
        yield from prove_bridge(Bridging(replace(subject, policy=shim_policy), sandbox, bridge))


def _cloud(
    subject: ProofSubject, resolve: Resolve, settings: Sequence[str], rendered: Rendered
) -> Iterator[ProbeOutcome]:
    """The proof of cloud accounts, in a sandbox with them and in one without."""
    planted_home = plant_home(subject.fixture)
    for mode, read, made in cloud_cases(planted_home):
        words = [*subject.fixture.settings(*read), *settings, f"credentials.cloud={mode}"]
        policy = resolve(words, planted_home.seen)
        probes = made(replace(subject, policy=policy), planted_home)
        try:
            sandbox = rendered(f"cloud-{mode}", policy)
        except RenderError as error:
            yield from (skipped(each, subject.method, str(error)) for each in probes)
            continue
        _, found = answers_of(probes, sandbox)
        yield from (
            judge(each, subject.method, planted_home)
            for each, planted_home in zip(probes, found, strict=True)
        )


def _granted_note(subject: ProofSubject) -> str:
    return (
        f"{subject.method}: beside what the policy grants, this run granted planted files below "
        f"{subject.fixture.root}, among them the probe program"
    )


def _prove_probes(probes: Sequence[Probe], sandbox: RenderedSandbox) -> Iterator[ProbeOutcome]:
    """The verdict on whether it starts at all, then on each probe."""
    batch, answers = attempted(probes, sandbox)
    yield start_outcome(batch, sandbox)
    for probe in probes:
        yield judge(probe, sandbox.method, answers.get(probe.name, ()))


def attempted(
    probes: Sequence[Probe], sandbox: RenderedSandbox
) -> tuple[Batch, Mapping[str, tuple[ProbeAnswer, ...]]]:
    """The start that most probes share, and the answers of all probes that are not skipped, by name.

    Probes with a separate sandbox come first: a breach in the others could remove files that later starts
    need.
    """
    tried = [probe for probe in probes if not probe.skip]
    alone = {probe.name: answers_of([probe], sandbox)[1][0] for probe in tried if probe.alone}
    together = [probe for probe in tried if not probe.alone]
    batch, shared = answers_of(together, sandbox)
    return batch, alone | {probe.name: answers for probe, answers in zip(together, shared, strict=True)}


def answers_of(
    probes: Sequence[Probe], sandbox: RenderedSandbox
) -> tuple[Batch, list[tuple[ProbeAnswer, ...]]]:
    """The answers to each probe's steps, from one start."""
    batch = sandbox.attempt([step.attempt for probe in probes for step in probe.asked])
    remaining = iter(batch.answers)
    return batch, [tuple(next(remaining) for _ in probe.asked) for probe in probes]


def start_outcome(batch: Batch, sandbox: RenderedSandbox) -> ProbeOutcome:
    """Whether a sandbox started and the probe program ran in it to its end."""
    answered = sum(each.kind != "none" for each in batch.answers)
    # 125: not all files of the probes come back
    ends = (0, 125) if sandbox.copies_project else (0,)
    good = batch.status in ends and answered == len(batch.answers)
    ended = "ran out of time" if batch.status is None else f"ended with {batch.status}"
    return ProbeOutcome(
        probe="lifecycle/starts",
        method=sandbox.method,
        family=Family.LIFECYCLE,
        verdict=Verdict.PASS if good else Verdict.FAIL,
        expected="every attempt is answered",
        observed=f"{answered} of {len(batch.answers)} answered",
        evidence=f"the launcher {ended}\n{batch.stderr}".strip(),
        about="the sandbox starts, and the probe program runs in it to its end",
    )
