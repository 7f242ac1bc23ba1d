"""Finds a method by its name, with its parts: ours, their variants, and those that others install.

A distribution adds a method with an entry point of the group `sandwright.methods`: its name is the method's,
and it names a `contract.Method`. An installed method never takes the place of one
of ours.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace

from sandwright.errors import UsageError
from sandwright.evaluate.gate import check_artifacts
from sandwright.methods import METHODS, package_of, separate_packages
from sandwright.methods.contract import Backend, Method, MethodVariant, Parts
from sandwright.methods.installed import GROUP, EntryPoint, entry_points
from sandwright.methods.properties import Answers, Properties, ProxyStarter
from sandwright.policy.declaration import Declaration
from sandwright.policy.limits import with_kept_limits
from sandwright.policy.names import METHODS as NAMES
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.rendered import Rendered, render_with


def policy_names() -> tuple[str, ...]:
    """The methods that a policy may name: ours, then those that are installed."""
    return (*METHODS, *sorted(registered()))


def names() -> tuple[str, ...]:
    """The names of all backends: our methods, each followed by its variants, then installed ones."""
    ours = (
        name
        for method, definition in METHODS.items()
        for name in (
            method,
            *(variant for variant, each in definition.variants.items() if each.parts.backend),
        )
    )
    return (*ours, *sorted(registered()))


def with_substitutes() -> dict[str, tuple[str, ...]]:
    """The names of all backends, each with the variants that it falls back to."""
    found: dict[str, tuple[str, ...]] = {}
    for name in names():
        method_name, _, variant = find(name)
        if variant.fallback:
            found[method_name] += (name,)
        else:
            found[name] = ()
    return found


def variants() -> tuple[str, ...]:
    """The variants of our methods, which can be rendered by their names."""
    return tuple(variant for each in METHODS.values() for variant in each.variants)


def verifiable() -> tuple[str, ...]:
    """The methods and variants of ours that `verify` can prove."""
    return tuple(
        name
        for method, definition in METHODS.items()
        if definition.properties.verifiable
        for name in (
            method,
            *(variant for variant, each in definition.variants.items() if each.parts.backend),
        )
    )


def default_methods(system: str, *, last_resort: bool = False) -> tuple[str, ...]:
    """The methods to try if a policy names none, the least demanding first.

    With `last_resort`, they include methods that are refused unless `accept_gaps` lists their gaps.
    """
    ranks = {
        name: each.properties.proposed.get(system)
        for name, each in METHODS.items()
        if last_resort or not each.properties.last_resort
    }
    return tuple(name for _, name in sorted((rank, name) for name, rank in ranks.items() if rank))


def registered() -> tuple[str, ...]:
    """The methods that others have installed, which policies may name beside ours."""
    return tuple(_installed())


def packages() -> frozenset[str]:
    """The names of the packages or modules that methods outside `sandwright` are in."""
    return frozenset(each.module.partition(".")[0] for each in _installed().values()) | separate_packages()


def method(name: str) -> Method:
    """The method of a name. Raise UsageError for one that is not there, or that can't be loaded."""
    if name in METHODS:
        return METHODS[name]
    installed = _installed()
    if name in installed:
        return _load_method(name, installed[name])
    if name in NAMES:
        raise UsageError(f"the method {name} needs the package {package_of(name)}: install sandwright again")
    raise UsageError(f"there is no method {name!r}; there is {', '.join(policy_names())}")


def find(name: str) -> tuple[str, Method, MethodVariant]:
    """The name of a method, the method and its variant, by the name of either. Raise UsageError."""
    if name not in METHODS:
        for method_name, definition in METHODS.items():
            if name in definition.variants:
                return method_name, definition, definition.variants[name]
    return name, method(name), MethodVariant(Parts())


def properties(name: str) -> Properties:
    """The properties of a method, or of the method that a variant is one of. Raise UsageError."""
    return find(name)[1].properties


def proxy_starter(name: str, policy: ResolvedPolicy) -> ProxyStarter:
    """The component that starts a policy's proxy for a method or variant. Raise UsageError.

    A method in an engine's outer container has its proxy in another container, as the engine's own method.
    """
    _, definition, variant = find(name)
    contained = definition.properties.outer_container and {policy.gvisor_engine, variant.engine} != {"none"}
    return "launcher" if contained else definition.properties.proxy


def remote(listed: Iterable[str]) -> frozenset[str]:
    """The listed methods that run a sandbox on another machine, with the user's credentials there."""
    return frozenset(name for name in listed if properties(name).remote)


def image_root(listed: Iterable[str]) -> frozenset[str]:
    """The listed methods whose root is an image's. They show only listed paths of the host."""
    return frozenset(name for name in listed if properties(name).root == "image")


def _with_parts(name: str) -> Method:
    """The method of a name, or a method with the parts of the variant of that name. Raise UsageError."""
    _, definition, variant = find(name)
    parts = variant.parts
    if parts == Parts():
        return definition
    replaced = {part: value for part, value in asdict(parts).items() if value}
    if parts.render:
        replaced |= {"read_back": parts.read_back, "read_others": parts.read_others}  # of other artifacts
    return replace(definition, parts=replace(definition.parts, **replaced))


def declaration(name: str) -> Declaration:
    """The features of a policy that a method or variant can enforce. Raise UsageError."""
    return _with_parts(name).declare()


def backend(name: str) -> Backend:
    """The backend that starts sandboxes of a method or variant here. Raise UsageError where there is none."""
    if name not in names() and name not in METHODS:
        raise UsageError(f"there is no method {name!r}; there is {', '.join(names())}")
    made = _with_parts(name).make_backend()
    if made is None:
        raise UsageError(
            f"{name} is rendered, but not run from here: see the files that `sandwright render` writes"
        )
    return made


def expected(name: str) -> dict[str, Answers]:
    """The answers of probes that differ for a method or variant, by claim. Raise UsageError."""
    return {**find(name)[1].expect(), **_with_parts(name).expect()}


def variant_name(name: str, policy: ResolvedPolicy) -> str:
    """The name of the backend for a policy's method: the variant for `gvisor.engine`, or the method."""
    variants, engine = method(name).variants.items(), policy.gvisor_engine
    return next((variant for variant, each in variants if each.engine == engine != "none"), name)


def method_candidates(name: str, policy: ResolvedPolicy) -> tuple[str, ...]:
    """The backends for a policy's method, in the order of trial: `variant_name`, then fallbacks."""
    first = variant_name(name, policy)
    others = (variant for variant, each in method(name).variants.items() if each.fallback)
    return (first, *others) if first == name else (first,)


def artifacts(policy: ResolvedPolicy, name: str) -> tuple[Artifact, ...]:
    """The artifacts of a method or variant, whether it can enforce the policy or not. Raise like `render`."""
    policy = _in_engine(policy, name)
    return _with_parts(name).make_artifacts(with_kept_limits(policy, declaration(name)))


def _in_engine(policy: ResolvedPolicy, name: str) -> ResolvedPolicy:
    """A policy for the engine that a variant is run in."""
    engine = find(name)[2].engine
    return replace(policy, gvisor_engine=engine) if engine != "none" else policy


def render(policy: ResolvedPolicy, name: str) -> Rendered:
    """Render a policy for a method or variant, and pass the artifacts through the gate.

    Raise RenderError that names each feature the method can't enforce and `accept_gaps` does not list,
    ArtifactsTooWide where the artifacts, read back, allow more than the policy; UsageError for a method that
    there isn't.
    """
    rendered = render_for_trial(policy, name)
    policy = _in_engine(policy, name)
    method_here = _with_parts(name)
    if declaration(name).enforces and method_here.parts.read_back:
        read = method_here.read_artifacts(rendered, policy)
        check_artifacts(
            policy, declaration(name), rendered, (read, *method_here.read_others(rendered, policy))
        )
    return rendered


def render_for_trial(policy: ResolvedPolicy, name: str) -> Rendered:
    """Render as `render` does, but without the gate, for preflights: their trial's policy is sandwright's."""
    in_engine = find(name)[2].engine != "none"
    make = _with_parts(name).make_artifacts
    return render_with(_in_engine(policy, name), declaration(name), make, name="" if in_engine else name)


def _load_method(name: str, point: EntryPoint) -> Method:
    where = f"the method {name} ({point.value})"
    try:
        found = point.load()
    except Exception as error:  # it is not our code, and may fail in any way
        raise UsageError(f"cannot load {where}: {error!r}") from error
    if not isinstance(found, Method):
        raise UsageError(f"{where} is {type(found).__name__}, not sandwright.methods.contract.Method")
    return found


@functools.cache
def _installed() -> Mapping[str, EntryPoint]:
    """Entry points by name, without those that have the name of a method of ours or of its variant."""
    others = [point for point in entry_points(GROUP) if point.name not in NAMES]
    ours = set(variants()) if others else set()
    found: dict[str, EntryPoint] = {}
    for point in others:
        if point.name not in ours:
            found.setdefault(point.name, point)
    return found


def forget() -> None:
    """Search for installed methods again, after one was installed."""
    _installed.cache_clear()
