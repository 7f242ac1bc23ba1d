"""The methods by which a policy is enforced: each package has a `contract.Method`.

`registry` finds a method by its name, ours and those that others install. Code that several methods share is
in `shared`, which contains no method. A method that we ship in a separate package is found by its entry
point, as a third party's is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Final

from sandwright.methods import (
    alcless,
    bwrap,
    docker,
    gvisor,
    landlock,
    noop,
    oci,
    podman,
    seatbelt,
    user,
    vm,
)
from sandwright.methods.contract import Method
from sandwright.methods.installed import GROUP, EntryPoint, entry_points
from sandwright.policy.names import METHODS as NAMES

_HERE: Mapping[str, Method] = {
    "bwrap": bwrap.METHOD,
    "docker": docker.METHOD,
    "podman": podman.METHOD,
    "gvisor": gvisor.METHOD,
    "oci": oci.METHOD,
    "seatbelt": seatbelt.METHOD,
    "user": user.METHOD,
    "alcless": alcless.METHOD,
    "landlock": landlock.METHOD,
    "vm": vm.METHOD,
    "noop": noop.METHOD,
}


class ShippedMethods(Mapping[str, Method]):
    """Our methods by name, in the order in which they are listed.

    A method in a separate package, `sandwright_NAME`, is imported when it is first read. Where that package
    is not installed, the method is not listed.
    """

    def __getitem__(self, name: str) -> Method:
        """The method of a name. Raise KeyError."""
        return _HERE[name] if name in _HERE else _load_entry_point(_separate()[name])

    def __contains__(self, name: object) -> bool:
        """Whether it is one of ours, without importing it."""
        return name in _HERE or name in _separate()

    def __iter__(self) -> Iterator[str]:
        """Their names."""
        return (name for name in NAMES if name in self)

    def __len__(self) -> int:
        """The number of shipped methods."""
        return len(tuple(iter(self)))


def package_of(name: str) -> str:
    """The separate package that a method of ours is in, or would be in."""
    return f"sandwright_{name}"


def separate_packages() -> frozenset[str]:
    """The packages beside `sandwright` that methods of ours are in."""
    return frozenset(package_of(name) for name in _separate())


@functools.cache
def _separate() -> Mapping[str, EntryPoint]:
    """Another distribution can't take the name of a method of ours: the package is part of the check."""
    found = {
        point.name: point
        for point in entry_points(GROUP)
        if point.name in NAMES and point.name not in _HERE and point.module == package_of(point.name)
    }
    return {name: point for name, point in found.items() if find_spec(point.module)}


@functools.cache
def _load_entry_point(point: EntryPoint) -> Method:
    found = point.load()
    assert isinstance(found, Method), point
    return found


METHODS: Final[Mapping[str, Method]] = ShippedMethods()
