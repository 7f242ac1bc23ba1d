"""Finds a method by its name, and what it offers: ours, their forms, and those that others install.

A distribution adds a method with an entry point of the group `sandwright.methods`: its name is the method's,
and it names a module or object that is a `contract.Method`. An installed method never takes the place of one
of ours.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sandwright.errors import UsageError
from sandwright.evaluate.explain.reading import ReadBack
from sandwright.evaluate.gate import check_artifacts
from sandwright.methods import METHODS
from sandwright.methods.contract import Backend, Form, Method
from sandwright.methods.installed import entry_points
from sandwright.methods.properties import Properties
from sandwright.policy.declaration import Declaration
from sandwright.policy.limits import with_kept_limits
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.rendered import Rendered, render_with

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "sandwright.methods"
"""The group of entry points."""


def policy_names() -> tuple[str, ...]:
    """The methods that a policy may name: ours, then those that are installed."""
    return (*METHODS, *sorted(registered()))


def names() -> tuple[str, ...]:
    """What runs here: our methods, each with its forms behind it, then those that are installed."""
    ours = (
        name
        for method, module in METHODS.items()
        for name in (method, *(form for form, each in module.FORMS.items() if each.make_backend))
    )
    return (*ours, *sorted(registered()))


def with_substitutes() -> dict[str, tuple[str, ...]]:
    """What runs here, each with its forms that are taken where it doesn't start, which have no row."""
    found: dict[str, tuple[str, ...]] = {}
    for name in names():
        own, _, form = find(name)
        if form.instead:
            found[own] += (name,)
        else:
            found[name] = ()
    return found


def forms() -> tuple[str, ...]:
    """The forms of our methods, which can be rendered by their names."""
    return tuple(form for module in METHODS.values() for form in module.FORMS)


def verifiable() -> tuple[str, ...]:
    """What of our methods and their forms `verify` can prove."""
    return tuple(
        name
        for method, module in METHODS.items()
        if module.PROPERTIES.verifiable
        for name in (method, *(form for form, each in module.FORMS.items() if each.make_backend))
    )


def proposed(system: str, *, last_resort: bool = False) -> tuple[str, ...]:
    """The methods to try where a policy names none, the one that needs least first.

    `last_resort`: with those that no policy can have without accepting what they lack.
    """
    places = {
        name: each.PROPERTIES.proposed.get(system)
        for name, each in METHODS.items()
        if last_resort or not each.PROPERTIES.last_resort
    }
    return tuple(name for _, name in sorted((place, name) for name, place in places.items() if place))


def registered() -> tuple[str, ...]:
    """The methods that others have installed, which policies may name beside ours."""
    return tuple(_installed())


def packages() -> frozenset[str]:
    """The names of the packages or modules that they are in."""
    return frozenset(each.module.partition(".")[0] for each in _installed().values())


def method(name: str) -> Method:
    """The method of a name. Raise UsageError for one that is not there, or that can't be loaded."""
    if name in METHODS:
        return METHODS[name]
    installed = _installed()
    if name in installed:
        return _loaded(name, installed[name])
    raise UsageError(f"there is no method {name!r}; there is {', '.join(policy_names())}")


def find(name: str) -> tuple[str, Method, Form]:
    """The name of a method, the method and its form, by the name of either. Raise UsageError."""
    for own, module in METHODS.items():
        if name in module.FORMS:
            return own, module, module.FORMS[name]
    return name, method(name), Form()


def properties(name: str) -> Properties:
    """The properties of a method, or of that which a form is one of. Raise UsageError."""
    return find(name)[1].PROPERTIES


def remote(listed: Iterable[str]) -> frozenset[str]:
    """Those of some methods that run a sandbox on another machine, with the user's credentials there."""
    return frozenset(name for name in listed if properties(name).remote)


def declaration(name: str) -> Declaration:
    """What a method or form makes of policies. Raise UsageError."""
    _, module, form = find(name)
    return form.declare() if form.declare else module.declare()


def backend(name: str) -> Backend:
    """What starts sandboxes of a method or form here. Raise UsageError where nothing does."""
    if name not in names() and name not in METHODS:
        raise UsageError(f"there is no method {name!r}; there is {', '.join(names())}")
    _, module, form = find(name)
    made = form.make_backend() if form.make_backend else module.make_backend()
    if made is None:
        raise UsageError(
            f"{name} is rendered, and not run from here: see what `sandwright render` writes for it"
        )
    return made


def placed(name: str, policy: ResolvedPolicy) -> str:
    """The name of what runs a policy's method: the form that the policy's `outer` asks for, or itself."""
    forms = method(name).FORMS.items()
    return next((form for form, each in forms if each.outer == policy.outer != "none"), name)


def tried(name: str, policy: ResolvedPolicy) -> tuple[str, ...]:
    """What may run a policy's method, in the order in which it is tried: `placed`, and what is instead."""
    own = placed(name, policy)
    others = (form for form, each in method(name).FORMS.items() if each.instead)
    return (own, *others) if own == name else (own,)


def artifacts(policy: ResolvedPolicy, name: str) -> tuple[Artifact, ...]:
    """The artifacts of a method or form, whether it can enforce the policy or not. Raise like `render`."""
    _, module, form = find(name)
    policy = replace(policy, outer=form.outer) if form.outer != "none" else policy
    renderer = form.make_artifacts or module.make_artifacts
    return renderer(with_kept_limits(policy, declaration(name)))


def render(policy: ResolvedPolicy, name: str) -> Rendered:
    """The artifacts of a method or form for a policy.

    Raise RenderError that names each feature the method can't enforce and `degrade` does not accept,
    ArtifactsTooWide where the artifacts, read back, allow more than the policy; UsageError for a method that
    there isn't.
    """
    _, module, form = find(name)
    policy = replace(policy, outer=form.outer) if form.outer != "none" else policy
    renderer = form.make_artifacts or module.make_artifacts
    rendered = render_with(policy, declaration(name), renderer, name=name if form.outer == "none" else "")
    read = _reader(name)
    if read is not None:
        findings = {each.use.feature: each for each in rendered.findings}
        check_artifacts(policy, read(rendered, policy), findings, method=name)
    return rendered


def _reader(name: str) -> Callable[[Rendered, ResolvedPolicy], ReadBack] | None:
    """What reads artifacts of a method or form back; None where nothing does, or it enforces nothing."""
    _, module, form = find(name)
    if not declaration(name).enforces:
        return None
    if form.make_artifacts is not None:
        return form.read_artifacts
    return module.read_artifacts if module.PROPERTIES.explained else None


def _loaded(name: str, point: EntryPoint) -> Method:
    where = f"the method {name} ({point.value})"
    try:
        found: Method = point.load()
    except Exception as error:  # it is not our code, and may fail in any way
        raise UsageError(f"{where} can't be loaded: {error!r}") from error
    missing = [each for each in _OFFERED if not hasattr(found, each)]
    if missing:
        raise UsageError(f"{where} lacks {', '.join(missing)}")
    return found


_OFFERED = (
    *("PROPERTIES", "FORMS", "declare", "make_artifacts", "read_artifacts", "make_backend", "expect"),
)
"""What a method has to have."""


@functools.cache
def _installed() -> Mapping[str, EntryPoint]:
    """Entry points by name, without those that are called like a method of ours or like its form."""
    ours = {*METHODS, *(form for each in METHODS.values() for form in each.FORMS)}
    return {name: point for name, point in entry_points(GROUP).items() if name not in ours}


def forget() -> None:
    """Look for installed methods anew, after something was installed."""
    _installed.cache_clear()
