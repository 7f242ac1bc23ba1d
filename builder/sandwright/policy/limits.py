"""The limits that presets set: which of them a method keeps on a host, and the policy without the others.

A limit that a policy lists is enforced or refused. A preset's limit is a default, so it is left out if the
method cannot enforce it, and reports show that.
"""

from __future__ import annotations

from dataclasses import replace

from sandwright.policy.declaration import Declaration
from sandwright.policy.resolved import ResolvedPolicy

CONTROLLERS = {"memory": "memory", "cpus": "cpu", "pids": "pids"}
"""The limits of all processes together, each with the name of its cgroup controller (cgroups(7))."""

LOWERED = {"memory": "256MiB", "pids": "384"}
"""Limits that a proof exhausts in place of a preset's generous ones. gVisor has up to 250 threads."""


def left_out(policy: ResolvedPolicy, declaration: Declaration) -> dict[str, str]:
    """The limits of presets that a method can't keep on the policy's host, each with the reason."""
    if not declaration.enforces:  # the policy's reason accepts that there are none
        return {}
    found: dict[str, str] = {}
    for name in CONTROLLERS:
        limit = getattr(policy.resources, name)
        if limit is not None and is_preset(policy, name):
            reason = _limit_obstacle(policy, declaration, name)
            found |= {name: reason} if reason else {}
    return found


def with_kept_limits(policy: ResolvedPolicy, declaration: Declaration) -> ResolvedPolicy:
    """The policy without the limits that are left out."""
    gone = left_out(policy, declaration)
    return replace(policy, resources=replace(policy.resources, **dict.fromkeys(gone))) if gone else policy


def is_preset(policy: ResolvedPolicy, name: str) -> bool:
    """Whether a preset sets a limit, and no layer above it."""
    return policy.source(f"resources.{name}").layer.startswith("preset ")


def lowered_limits(policy: ResolvedPolicy) -> list[str]:
    """Settings that lower the limits of presets to amounts that a proof can exhaust."""
    return [
        f"resources.{name}={value}"
        for name, value in LOWERED.items()
        if getattr(policy.resources, name) is not None and is_preset(policy, name)
    ]


def _limit_obstacle(policy: ResolvedPolicy, declaration: Declaration, name: str) -> str:
    support = declaration.of(f"resources.{name}")
    if support.level == "cannot":
        return support.reason
    if declaration.preset_limits:
        return declaration.preset_limits
    facts = policy.facts
    groups = declaration.outer_control_groups.get(policy.gvisor_engine, declaration.control_groups)
    if groups == "own":
        return ""
    if groups == "caller" and facts.uid != 0:
        return "without root there may be no cgroup to count in"
    if facts.os == "linux" and CONTROLLERS[name] not in facts.controllers:
        return "this host has no cgroup to count in"
    return ""
