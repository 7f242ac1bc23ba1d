"""Reads `launch.plan` back: the launcher's actions, and their positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sandwright.errors import DocumentError, Problem, RenderError
from sandwright.evaluate.explain.enclosure import Passing
from sandwright.evaluate.explain.verdict import ArtifactPosition, words_in
from sandwright.launcher.plan import HEAD, NAME, LaunchPlan, parse_plan
from sandwright.render.rendered import Rendered

Placed = tuple[str, ArtifactPosition]
"""A word, and where it is. Its line is its number, as `tr '\\0' '\\n'` shows the file."""


@dataclass(frozen=True)
class ReadPlan:
    """A plan, and the words of each of its fields."""

    plan: LaunchPlan
    words: Mapping[str, tuple[Placed, ...]]

    def words_of(self, name: str) -> tuple[Placed, ...]:
        """The words of a field; none where the plan doesn't have it."""
        return self.words.get(name, ())

    def passing(self) -> Passing:
        """The variables of the host that are passed on, and those that never are."""
        return Passing(dict(self.words_of("passed")), dict(self.words_of("never")))

    def settings(self, name: str) -> dict[str, ArtifactPosition]:
        """The variables that a field gives values to."""
        return {word.partition("=")[0]: position for word, position in self.words_of(name)}

    def ports(self, name: str) -> dict[str, ArtifactPosition]:
        """`localhost`, `expose` and their like: the ports that lead to or from the host's loopback."""
        return dict(self.words_of(name))

    def absent(self) -> dict[str, ArtifactPosition]:
        """The paths that must not exist."""
        return dict(self.words_of("absent"))


def read_plan(rendered: Rendered) -> ReadPlan:
    """The plan of a rendered sandbox. Raise DocumentError for one that is none."""
    content = rendered.artifact(NAME).content
    try:
        plan = parse_plan(content)
    except RenderError as error:
        raise DocumentError(NAME, [Problem(0, 0, "", str(error))]) from error
    words = words_in(content)
    found: dict[str, tuple[Placed, ...]] = {}
    at = len(HEAD)
    while words[at] != "end":
        first, last = at + 2, at + 2 + int(words[at + 1])
        found[words[at]] = tuple(
            (words[each], ArtifactPosition(NAME, words[each], each + 1, 1)) for each in range(first, last)
        )
        at = last
    return ReadPlan(plan, found)
