"""The methods by which a policy is enforced: each package has a `contract.Method`.

`registry` finds a method by its name, ours and those that others install. What several methods share is in
`shared`, where nothing is a method.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sandwright.methods import (
    alcless,
    bwrap,
    docker,
    gvisor,
    kubernetes,
    landlock,
    noop,
    oci,
    podman,
    seatbelt,
    user,
    vm,
)
from sandwright.methods.contract import Method

METHODS: Final[Mapping[str, Method]] = MappingProxyType({
    "bwrap": bwrap.METHOD,
    "docker": docker.METHOD,
    "podman": podman.METHOD,
    "gvisor": gvisor.METHOD,
    "oci": oci.METHOD,
    "seatbelt": seatbelt.METHOD,
    "kubernetes": kubernetes.METHOD,
    "user": user.METHOD,
    "alcless": alcless.METHOD,
    "landlock": landlock.METHOD,
    "vm": vm.METHOD,
    "noop": noop.METHOD,
})  # fmt: skip
"""Our methods by name, in the order in which they are listed."""
