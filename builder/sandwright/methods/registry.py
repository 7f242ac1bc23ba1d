"""The table of methods that run here: ours, and those that others install.

A distribution adds a method with an entry point of the group `sandwright.methods`: its name is the method's,
and it names a `Backend`, or a class or function without arguments that makes one. An installed method never
takes the place of one of ours.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import import_module, metadata
from types import MappingProxyType

from sandwright.errors import UsageError
from sandwright.methods.contract import Backend
from sandwright.policy.names import METHODS
from sandwright.policy.resolved import ResolvedPolicy

GROUP = "sandwright.methods"
"""The group of entry points."""

_OURS: Mapping[str, tuple[str, str]] = MappingProxyType({
    "bwrap": ("bwrap", "Bwrap"),
    "docker": ("shared.engine", "Docker"),
    "podman": ("shared.engine", "Podman"),
    "gvisor": ("shared.runtime_spec", "Gvisor"),
    "gvisor-docker": ("gvisor.outer", "DockerGvisor"),
    "gvisor-podman": ("gvisor.outer", "PodmanGvisor"),
    "oci": ("shared.runtime_spec", "Oci"),
    "seatbelt": ("seatbelt", "Seatbelt"),
    "user": ("user", "User"),
    "alcless": ("user", "Alcless"),
    "noop": ("noop", "Noop"),
})  # fmt: skip
"""Module and class by method, imported when the method is first asked for."""


def names() -> tuple[str, ...]:
    """The methods that run here: ours, then those that are installed, by name."""
    return (*_OURS, *sorted(registered()))


def registered() -> tuple[str, ...]:
    """The methods that others have installed, which policies may name beside ours."""
    return tuple(_installed())


def backend(name: str) -> Backend:
    """The method of a name. Raise UsageError for one that is not there, or that can't be loaded."""
    if name in _OURS:
        module, row = _OURS[name]
        ours: Backend = getattr(import_module(f"sandwright.methods.{module}.backend"), row)()
        return ours
    installed = _installed()
    if name in installed:
        return _loaded(name, installed[name])
    if name in METHODS:
        raise UsageError(
            f"{name} is rendered, and not run from here: see what `sandwright render` writes for it"
        )
    raise UsageError(f"there is no method {name!r}; there is {', '.join(names())}")


def placed(name: str, policy: ResolvedPolicy) -> str:
    """The row for a policy's method: gVisor in a container of its own has others than on the host."""
    return f"{name}-{policy.outer}" if name == "gvisor" and policy.outer != "none" else name


def _loaded(name: str, point: metadata.EntryPoint) -> Backend:
    where = f"the method {name} ({point.value})"
    try:
        found = point.load()
        made: Backend = found() if isinstance(found, type) or not hasattr(found, "wrap") else found
    except Exception as error:  # it is not our code, and may fail in any way
        raise UsageError(f"{where} can't be loaded: {error!r}") from error
    missing = [each for each in _OFFERED if not hasattr(made, each)]
    if missing:
        raise UsageError(f"{where} lacks {', '.join(missing)}")
    if made.name != name:
        raise UsageError(f"{where} calls itself {made.name!r}")
    return made


_OFFERED = (
    *("name", "declaration", "terminal", "depends", "preflight", "render", "wrap", "environment"),
    *("deliver", "leftovers", "remove"),
)
"""What a backend has to have."""


@functools.cache
def _installed() -> Mapping[str, metadata.EntryPoint]:
    """Entry points by name, without those that are called like a method of ours."""
    return {point.name: point for point in metadata.entry_points(group=GROUP) if point.name not in METHODS}


def forget() -> None:
    """Look for installed methods anew, after something was installed."""
    _installed.cache_clear()
