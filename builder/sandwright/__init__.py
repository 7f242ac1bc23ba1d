"""Builds sandboxes from one policy, and proves them.

    from sandwright import Policy

    policy = Policy.load("sandbox.yaml")
    policy.is_path_writable("~/.ssh/id_rsa")                    # False
    policy.render("bwrap").artifact("args").content             # bubblewrap's arguments
    policy.explain("connect", "github.com:443", methods=["bwrap", "seatbelt"]).agree

`HostFacts` carry a host elsewhere: `policy.render("seatbelt", HostFacts.from_json(text))` makes a Mac's
profile on Linux. Every error that is raised on purpose is a `SandwrightError` (`sandwright.errors`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandwright.lazy import load

if TYPE_CHECKING:
    from sandwright.api import Policy
    from sandwright.errors import SandwrightError
    from sandwright.evaluate.explain.compare import Comparison
    from sandwright.policy.facts import HostFacts
    from sandwright.policy.resolved import ResolvedPolicy
    from sandwright.render.artifact import Artifact
    from sandwright.render.rendered import Rendered

__version__ = "0.1.0"

__all__ = [
    "Artifact",
    "Comparison",
    "HostFacts",
    "Policy",
    "Rendered",
    "ResolvedPolicy",
    "SandwrightError",
    "__version__",
]

_HOMES = {
    "Artifact": "render.artifact",
    "Comparison": "evaluate.explain.compare",
    "HostFacts": "policy.facts",
    "Policy": "api",
    "Rendered": "render.rendered",
    "ResolvedPolicy": "policy.resolved",
    "SandwrightError": "errors",
}


def __getattr__(name: str) -> object:
    """Import the public names at their first use, because importing them would slow down `--help`."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(f".{_HOMES[name]}:{name}", __name__)
