"""Reads the variables of alcless' launcher back: copied paths, returned paths, and the environment."""

from __future__ import annotations

from dataclasses import dataclass

from sandwright.errors import DocumentError, Problem
from sandwright.evaluate.explain import variables
from sandwright.evaluate.explain.enclosure import Passing
from sandwright.evaluate.explain.reading import ReadBack
from sandwright.evaluate.explain.variables import Words
from sandwright.evaluate.explain.verdict import BY_RUN, IS_SET, ArtifactPosition, Asked, MethodVerdict
from sandwright.policy.facts import HostFacts
from sandwright.policy.paths import ancestors, is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered
from sandwright.render.shell import VARIABLES

_RIGHTS = "outside the project, the account has the rights that this machine gives it"
_NETWORK = "an account has the network of its machine"


@dataclass(frozen=True)
class AccountCopy(ReadBack):
    """A copy of the project: without paths in `hidden`; from those in `protected` nothing comes back."""

    project: str
    hidden: dict[str, ArtifactPosition]
    protected: dict[str, ArtifactPosition]
    passing: Passing
    settings: dict[str, ArtifactPosition]

    def answer(self, question: Asked, facts: HostFacts, arch: str) -> MethodVerdict:  # noqa: ARG002 - no filter
        """Answer a question by the copies; outside the project, no rule of ours applies."""
        match question.kind:
            case "read" | "write" | "exec" if is_inside(question.path, self.project):
                return self._decide_copied_path(question)
            case "read" | "write" | "exec":
                return MethodVerdict(allowed=None, because=_RIGHTS)
            case "connect" if question.path:
                return MethodVerdict(allowed=None, because=_RIGHTS)
            case "connect" | "request" | "listen":
                return MethodVerdict(allowed=True, because=_NETWORK)
            case "env" if question.name in self.settings:
                return MethodVerdict(allowed=True, because=IS_SET, position=self.settings[question.name])
            case "env":
                return self.passing.verdict(question.name)
            case "tool":
                return MethodVerdict(allowed=None, because=BY_RUN)
            case "syscall":
                return MethodVerdict(allowed=None, because="there is no filter of system calls")

    def way_to_proxy(self) -> MethodVerdict:
        """Allowed: there is no proxy, and nothing restricts connections."""
        return MethodVerdict(allowed=True, because=_NETWORK)

    def _decide_copied_path(self, question: Asked) -> MethodVerdict:
        patterns = self.protected if question.kind == "write" else self.hidden
        path = next((each for each in (question.path, *ancestors(question.path)) if each in patterns), None)
        if path is not None:
            because = "changes there are not copied back" if question.kind == "write" else "it is not copied"
            return MethodVerdict(allowed=False, because=because, position=patterns[path], target=path)
        return MethodVerdict(allowed=True, because="the project is copied, and what changed comes back")


def read_alcless(rendered: Rendered, policy: ResolvedPolicy) -> AccountCopy:
    """Read the paths that the launcher copies there and back. Raise DocumentError for other variables."""
    rows = variables.rows_of(rendered)
    ((source, position),) = rows["sw_source"][0]
    project = policy.canonical(policy.facts.project)
    if source != f"{project}/":
        problem = Problem(position.line, position.column, "sw_source", f"is {source}, not the project")
        raise DocumentError(VARIABLES, [problem])
    return AccountCopy(
        project,
        _excluded_paths(rows["hidden"], project),
        _excluded_paths(rows["kept"], project),
        variables.passed_variables(rows),
        variables.first_words(rows, "settings"),
    )


def _excluded_paths(rows: list[Words], project: str) -> dict[str, ArtifactPosition]:
    """The paths that rsync's patterns name, which begin at the project (rsync(1), FILTER RULES)."""
    return {f"{project}{_unquote_pattern(word)}": position for row in rows for word, position in row}


def _unquote_pattern(pattern: str) -> str:
    """A backslash quotes only in a pattern with wildcards, as rsync reads it."""
    if not any(each in pattern for each in "*?["):
        return pattern
    plain, quoted = "", False
    for character in pattern:
        quoted = character == "\\" and not quoted
        plain += "" if quoted else character
    return plain
