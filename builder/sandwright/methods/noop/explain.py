"""Answers of the method that enforces nothing: everything is allowed."""

from __future__ import annotations

from dataclasses import dataclass

from sandwright.evaluate.explain import variables
from sandwright.evaluate.explain.reading import ReadBack
from sandwright.evaluate.explain.verdict import ArtifactPosition, Asked, MethodVerdict
from sandwright.policy.facts import HostFacts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered


@dataclass(frozen=True)
class Unrestricted(ReadBack):
    """A launcher that only sets variables."""

    set_variables: dict[str, ArtifactPosition]

    def answer(self, question: Asked, facts: HostFacts, arch: str) -> MethodVerdict:  # noqa: ARG002 - the same anywhere
        """Allowed, for every question."""
        position = self.set_variables.get(question.name) if question.kind == "env" else None
        return MethodVerdict(allowed=True, because="noop enforces nothing", position=position)

    def way_to_proxy(self) -> MethodVerdict:
        """Allowed: every address is reachable."""
        return MethodVerdict(allowed=True, because="noop enforces nothing")


def read_noop(rendered: Rendered, _policy: ResolvedPolicy) -> Unrestricted:
    """The launcher's variables."""
    settings = variables.rows_of(rendered)["settings"][0]
    return Unrestricted({word.partition("=")[0]: position for word, position in settings})
