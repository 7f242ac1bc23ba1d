"""The work of `sandwright verify`, without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sandwright.errors import UsageError
from sandwright.host import collect_host
from sandwright.inputs import LiveHost
from sandwright.methods import registry
from sandwright.outputs import write_output
from sandwright.policy.facts import HostFacts
from sandwright.policy.load import run_layer
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.progress import SILENT, Progress
from sandwright.session import persistent, preflights
from sandwright.session.prepare import choose_method, load_layers, resolved_here
from sandwright.session.request import RunRequest
from sandwright.verify import matrix
from sandwright.verify.about import origin
from sandwright.verify.page import page
from sandwright.verify.report import PolicyReport, encode_report, junit


def verify_policy(
    request: RunRequest,
    requested: str,
    *,
    progress: Progress = SILENT,
    work: bool = False,
    approve: Callable[[MergedPolicy], None] = lambda _: None,
) -> tuple[PolicyReport, tuple[str, ...]]:
    """Verify the policy of a run with the requested methods; give the report and the methods that were named.

    With `work`, also prove that real programs work. `approve` gets the policy before anything is created.
    Raise the exceptions of loading a policy, and HostError if there is no probe for this platform, or if no
    method starts for a run without a policy's file.
    """
    policy = load_layers(request, LiveHost(), display_name=request.shown())
    approve(policy)
    layers = policy.layers

    def here(
        more: Sequence[str],
        other: Callable[[HostFacts], HostFacts] | None = None,
        project: Path = Path(request.policy).parent,
    ) -> ResolvedPolicy:
        added = run_layer(more)
        whole = MergedPolicy.from_layers([*layers, *([added] if added else [])])
        persistent.make_persistent(whole, str(project))
        return resolved_here(whole, request, LiveHost(), other=other, project=project)

    def resolve(more: Sequence[str], other: Callable[[HostFacts], HostFacts] | None = None) -> ResolvedPolicy:
        return here(more, other)

    def resolve_at(project: Path, more: Sequence[str]) -> ResolvedPolicy:
        return here(more, project=project)

    methods = matrix.methods(requested) if requested else _own_methods(resolve(()), request)
    methods = methods if requested == "all" else with_fallbacks(resolve(()), methods)
    report = matrix.verify(
        resolve, methods, policy=_policy_label(request), progress=progress, work=resolve_at if work else None
    )
    report = replace(report, origin=origin(layers, request))
    return report, () if requested == "all" else methods if requested else methods_to_prove(
        resolve(()), methods
    )


def methods_to_prove(policy: ResolvedPolicy, methods: Sequence[str]) -> tuple[str, ...]:
    """The methods of a policy that have to be proved; of `methods`, the one that `run` chooses here."""
    if len(policy.methods) < 2:
        return tuple(methods)
    host = collect_host()
    for name in policy.methods:
        for candidate in registry.method_candidates(name, policy):
            if preflights.cached_preflight(registry.backend(candidate), host).ready:
                return (name if candidate == registry.variant_name(name, policy) else candidate,)
    return tuple(methods)


def with_fallbacks(policy: ResolvedPolicy, methods: Sequence[str]) -> tuple[str, ...]:
    """The same methods, each with the form that `run` uses here if the method itself doesn't start."""
    host = collect_host()

    def one(name: str) -> str:
        first, *others = (
            registry.method_candidates(name, policy) if name in registry.policy_names() else (name,)
        )
        if not others or preflights.cached_preflight(registry.backend(first), host).ready:
            return name
        ready = (each for each in others if preflights.cached_preflight(registry.backend(each), host).ready)
        return next(ready, name)

    return tuple(dict.fromkeys(map(one, methods)))


def _policy_label(request: RunRequest) -> str:
    presets = f"preset {' and '.join(request.presets)}" if request.presets else ""
    file = request.shown() if request.has_policy() else ""
    return " with ".join(filter(None, (file, presets)))


def _own_methods(policy: ResolvedPolicy, request: RunRequest) -> tuple[str, ...]:
    """The policy's methods that can be verified; without a file, the one that `run` chooses.

    Raise UsageError if none can be verified.
    """
    if not policy.methods and not request.has_policy():
        return (choose_method(policy, LiveHost(), proposed=True)[0].name,)
    found = tuple(name for name in policy.methods if matrix.is_verifiable(name))
    if not found:
        raise UsageError(
            f"no method of the policy ({', '.join(policy.methods) or 'none'}) can be verified; name one"
        )
    return found


def write_reports(
    report: PolicyReport, *, json: str = "", junit: str = "", html: str = "", faults: Sequence[str]
) -> None:
    """Write the report's files, each whole or not at all; an empty name means none.

    `faults` are the faults that end the command; the page lists them, too.
    """
    for name, make in ((json, encode_report), (junit, _junit), (html, lambda report: page(report, faults))):
        if name:
            write_output(name, make(report))


_junit = junit
