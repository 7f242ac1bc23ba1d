"""Renders a policy for a method: refuses unsupported features, then creates the artifacts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sandwright.errors import RenderError
from sandwright.policy.declaration import Declaration
from sandwright.policy.limits import with_kept_limits
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import RenderFinding, check_expressible
from sandwright.render.artifact import Artifact

Renderer = Callable[[ResolvedPolicy], tuple[Artifact, ...]]
"""Makes a method's artifacts of a policy. It is pure: the policy's facts are its only input from the host."""


@dataclass(frozen=True)
class Rendered:
    """A method's artifacts, and their differences from the policy."""

    method: str
    artifacts: tuple[Artifact, ...]
    findings: tuple[RenderFinding, ...]

    def artifact(self, name: str) -> Artifact:
        """The artifact of a name. Raise KeyError when there is none."""
        for each in self.artifacts:
            if each.name == name:
                return each
        raise KeyError(name)


def render_with(
    policy: ResolvedPolicy, declaration: Declaration, renderer: Renderer, *, name: str = ""
) -> Rendered:
    """A method's artifacts for a policy. `name` is that of a form of the method.

    Raise RenderError that names each feature the method can't enforce and `accept_gaps` does not list.
    """
    findings = check_expressible(policy, declaration)
    artifacts = renderer(with_kept_limits(policy, declaration))
    _check_names(name or declaration.method, artifacts)
    return Rendered(name or declaration.method, artifacts, findings)


def _check_names(method: str, artifacts: tuple[Artifact, ...]) -> None:
    """Refuse a name that leads outside the method's directory, or to another artifact."""
    seen: set[str] = set()
    for artifact in artifacts:
        name = artifact.name
        if name in seen or not all(name.split("/")) or {".", ".."} & set(name.split("/")):
            raise RenderError(f"{method} gives an artifact a name that it cannot have: {name!r}")
        seen.add(name)
