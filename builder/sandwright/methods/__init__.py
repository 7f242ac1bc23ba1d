"""The methods by which a policy is enforced: each is a package behind the Protocol of `contract.Method`.

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
    "bwrap": bwrap,
    "docker": docker,
    "podman": podman,
    "gvisor": gvisor,
    "oci": oci,
    "seatbelt": seatbelt,
    "kubernetes": kubernetes,
    "user": user,
    "alcless": alcless,
    "landlock": landlock,
    "vm": vm,
    "noop": noop,
})  # fmt: skip
"""Our methods by name, in the order in which they are listed."""
