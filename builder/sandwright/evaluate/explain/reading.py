"""The table of how a method's artifacts are read back: a method is a line."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from sandwright.evaluate.explain.verdict import Asked, Verdict
from sandwright.policy.facts import HostFacts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.methods import Rendered


class Sandbox(Protocol):
    """What artifacts describe, read back."""

    def answer(self, asked: Asked, facts: HostFacts, arch: str) -> Verdict:
        """What it decides on a host and, where that matters, an architecture."""

    def way_to_proxy(self) -> Verdict:
        """Whether the proxy can be reached, with `network.mode: proxy`."""


Reading = Callable[[Rendered, ResolvedPolicy], Sandbox]
"""Reads artifacts back. Of the policy it takes what launchers are told when they start."""


def _row(module: str, function: str, *, with_policy: bool = False) -> Reading:
    def reading(rendered: Rendered, policy: ResolvedPolicy) -> Sandbox:
        found = getattr(importlib.import_module(f"sandwright.methods.{module}.explain"), function)
        sandbox: Sandbox = found(rendered, policy) if with_policy else found(rendered)
        return sandbox

    return reading


READINGS: Mapping[str, Reading] = MappingProxyType({
    "bwrap": _row("bwrap", "read_bwrap"),
    "docker": _row("shared.engine", "read_engine"),
    "podman": _row("shared.engine", "read_engine"),
    "gvisor": _row("shared.runtime_spec", "read_runtime"),
    "oci": _row("shared.runtime_spec", "read_runtime"),
    "seatbelt": _row("seatbelt", "read_seatbelt", with_policy=True),
    "kubernetes": _row("kubernetes", "read_cluster"),
    "user": _row("user", "read_user"),
    "noop": _row("noop", "read_noop"),
})  # fmt: skip
"""By method."""
