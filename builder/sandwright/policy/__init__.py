"""The policy: what a sandbox allows. From the text of its layers to a value that answers every question.

    text → Layer (checked) → Policy (merged, held to the floor) → ResolvedPolicy (paths of one host)

`Policy` is the way in. Nothing here reads a clock, an environment variable or a file of the host, except
`load` (the policy's own files) and `collect` (what a policy needs to know of a host).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandwright.policy.facts import HostFacts
    from sandwright.policy.policy import Policy
    from sandwright.policy.resolved import ResolvedPolicy

__all__ = ["HostFacts", "Policy", "ResolvedPolicy"]

_HOMES = {"HostFacts": "facts", "Policy": "policy", "ResolvedPolicy": "resolved"}


def __getattr__(name: str) -> object:
    """Import the public names when they are first asked for: they cost more than `--help` may take."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
