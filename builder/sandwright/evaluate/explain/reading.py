"""Artifacts of a method, read back to a model that answers questions as the sandbox would."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from sandwright.evaluate.explain.isolation import Isolation
from sandwright.evaluate.explain.verdict import ArtifactPosition, Asked, MethodVerdict
from sandwright.policy.facts import HostFacts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount


class ReadBack(ABC):
    """The sandbox that artifacts describe."""

    @abstractmethod
    def answer(self, question: Asked, facts: HostFacts, arch: str) -> MethodVerdict:
        """Answer a question on a host and, where it matters, an architecture."""

    @abstractmethod
    def way_to_proxy(self) -> MethodVerdict:
        """Whether the proxy is reachable, with `network.mode: proxy`."""

    def isolation(self) -> Isolation | None:
        """The isolation from the host; None if no artifact decides it."""
        return None

    def can_move(self, path: str, facts: HostFacts) -> bool | None:  # noqa: ARG002
        """Whether a directory can be renamed, with all restricted paths in it; None if unknown."""
        return None

    def binds(self) -> Iterable[tuple[Mount, ArtifactPosition]]:
        """The mounts of the host's paths, each with its position."""
        return ()

    def passed(self) -> Iterable[str]:
        """The patterns of variables that come from the host."""
        return ()

    def through_proxy(self, host: str, port: int) -> MethodVerdict | None:  # noqa: ARG002
        """The answer of the proxy among the artifacts; None where a session starts one."""
        return None

    def why_stricter(self, policy: ResolvedPolicy, question: Asked) -> str | None:  # noqa: ARG002
        """The reason to deny an access that the policy allows; empty if unknown, None for those of mounts."""
        return None

    def why_looser(self, policy: ResolvedPolicy, question: Asked) -> str:  # noqa: ARG002
        """The reason for allowing an access that the policy denies; empty if unknown."""
        return ""
