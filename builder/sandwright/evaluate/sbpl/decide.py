"""Decides whether an operation may be done on a resource, and names the rule that says so.

The order of decision is the one that facts about macOS support (see `seatbelt/README.md`): of the rules that
name an operation, the newest filtered one that matches; else the newest unfiltered one; else, for a terminal
operation, its built-in decision; else the same for its parent. `default` is the root, and denies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sandwright.errors import UsageError
from sandwright.evaluate.sbpl.filters import Filter, matches
from sandwright.evaluate.sbpl.paths import Links
from sandwright.evaluate.sbpl.profile import SbplProfile
from sandwright.evaluate.sbpl.request import Resource, SbplRequest, parse_request
from sandwright.evaluate.sbpl.rule import Rule
from sandwright.evaluate.sbpl.source import octets, readable
from sandwright.evaluate.sbpl.table import Table
from sandwright.evaluate.sbpl.vocabulary import Action, Operation, nearest, vocabulary

Stage = Literal["filtered rule", "unfiltered rule", "built-in"]

_NO_FOLLOW = frozenset({"file-read-metadata", "file-write-create", "file-write-unlink", "fs-rename"})
"""Operations of system calls that act on a link itself when a path ends in one (lstat, symlink, unlink,
rename).
"""

_EXEC = frozenset({"process-exec*", "process-exec-interpreter"})


@dataclass(frozen=True)
class SbplDecision:
    """The decision and its reason. `level` is the operation whose rules decided: `operation` or one above it.

    `link` is set when the operation fails because a symbolic link on the way may not be read; `operation` is
    then `file-read-metadata`, on that link. `note` explains a built-in decision.
    """

    decision: Action
    stage: Stage
    operation: str
    level: str
    rule: Rule | None
    link: str | None = None
    note: str = ""

    @property
    def allowed(self) -> bool:
        """Whether it is allowed."""
        return self.decision == "allow"


@dataclass(frozen=True)
class Shadowed:
    """A rule that matches too but does not decide."""

    rule: Rule
    level: str


@dataclass(frozen=True, eq=False)
class _Level:
    """The rules that name one operation of a chain."""

    operation: Operation
    filtered: tuple[Rule, ...]
    unfiltered: Rule | None


class _Chain:
    """The decisions for one operation: the ranked rules, and the fallback when none matches."""

    def __init__(self, name: str, levels: tuple[_Level, ...]) -> None:
        self.follows = name not in _NO_FOLLOW
        self.executes = name in _EXEC
        self.network = name.startswith("network")
        self.decisions: list[SbplDecision] = []
        self.fallback = SbplDecision("deny", "built-in", name, "default", None, note="nothing allows it")
        ranked: list[tuple[Filter, ...]] = []
        self.self_rank: int | None = None
        for level in levels:
            for rule in level.filtered:
                self.decisions.append(
                    SbplDecision(rule.action, "filtered rule", name, level.operation.name, rule)
                )
                ranked.append(rule.filters)
            if level.operation.self_allowed and level is levels[0]:
                self.self_rank = len(ranked)
            ending = _ending(name, level)
            if ending is not None:
                self.fallback = ending
                break
        self.table = Table(ranked)

    def decide(self, request: SbplRequest) -> SbplDecision:
        """The decision on a request whose path is resolved."""
        rank = self.table.find(request)
        if self.self_rank is not None and (rank is None or rank >= self.self_rank) and _is_self(request):
            note = "a process may always do that to itself"
            operation = self.fallback.operation
            return SbplDecision("allow", "built-in", operation, operation, None, note=note)
        return self.fallback if rank is None else self.decisions[rank]


def _ending(name: str, level: _Level) -> SbplDecision | None:
    """The decision of a level when none of its filtered rules matches; None: the parent decides."""
    if level.unfiltered is not None:
        return SbplDecision(
            level.unfiltered.action, "unfiltered rule", name, level.operation.name, level.unfiltered
        )
    if level.operation.builtin is None:
        return None
    verb = "allows" if level.operation.builtin == "allow" else "denies"
    note = f"macOS {verb} {level.operation.name} unless a rule names it"
    return SbplDecision(level.operation.builtin, "built-in", name, level.operation.name, None, note=note)


class Evaluator:
    """Answers questions about a profile. Tables are made at the first question about an operation."""

    def __init__(
        self, profile: SbplProfile, *, symlinks: Mapping[str, str] | None = None, links: Links | None = None
    ) -> None:
        """`symlinks` are the machine's links besides those of every macOS: path to target."""
        self.profile = profile
        self.links = links or Links(symlinks)
        self._by_operation: dict[str, list[Rule]] = {}
        for rule in profile.rules:
            for name in rule.operations:
                self._by_operation.setdefault(name, []).append(rule)
        self._chains: dict[str, _Chain] = {}

    def at(self, links: Links) -> Evaluator:
        """The same profile on a machine with other links; tables are shared."""
        other = Evaluator.__new__(Evaluator)
        other.__dict__ = {**self.__dict__, "links": links}
        return other

    def decide(self, operation: str, resource: Resource) -> SbplDecision:
        """Whether `operation` (or an alias of it) may be done on `resource`, and why.

        The keys of `resource` are those of `parse_request`. Raise UsageError for an unknown operation or key.
        """
        return self.decide_request(operation, parse_request(resource))

    def decide_request(self, operation: str, request: SbplRequest) -> SbplDecision:
        """`decide` for a request that is parsed; its path is replaced by the resolved one."""
        chain = self._chains.get(operation) or self._operation_chain(operation)
        path = request.path
        if path is None:
            return chain.decide(request)
        if chain.network and not request.network:
            request.unix = True
        if not self.links.is_plain(path):
            follow = chain.follows if request.follow is None else request.follow
            request.path, walked = self.links.resolve(path, follow=follow)
            refused = self._refused_link(walked)
            if refused is not None:
                return refused
            request.link = request.link or self.links.target(request.path) is not None
        decision = chain.decide(request)
        return _decide_set_id(decision) if request.setugid and chain.executes else decision

    def _refused_link(self, links: tuple[str, ...]) -> SbplDecision | None:
        """The decision that stops a walk through symbolic links, if one does."""
        for link in links:
            check = self._operation_chain("file-read-metadata").decide(SbplRequest(link, link=True))
            if check.decision == "deny":
                return dataclasses.replace(check, link=readable(link))
        return None

    def shadowed(self, decision: SbplDecision, request: SbplRequest) -> list[Shadowed]:
        """The other rules that match, up to the root, in the order in which they would have decided."""
        found: list[Shadowed] = []
        if decision.link is not None:
            request = SbplRequest(octets(decision.link), link=True)
        for level in self.levels(decision.operation, whole=True):
            rules = [
                rule for rule in level.filtered if any(matches(tested, request) for tested in rule.filters)
            ]
            if level.unfiltered is not None:
                rules.append(level.unfiltered)
            found.extend(Shadowed(rule, level.operation.name) for rule in rules if rule is not decision.rule)
        return found

    def levels(self, operation: str, *, whole: bool = False) -> tuple[_Level, ...]:
        """The rules of an operation and of those that decide when nothing names it.

        `whole`: up to `default`, past the point where the search ends.
        """
        words = vocabulary()
        chain = list(words.chain(operation))
        while whole and chain[-1].parent is not None:
            chain.append(words.operations[chain[-1].parent])
        return tuple(self._operation_level(step) for step in chain)

    def _operation_level(self, operation: Operation) -> _Level:
        newest = list(reversed(self._by_operation.get(operation.name, ())))
        unfiltered = next((rule for rule in newest if not rule.filters), None)
        return _Level(operation, tuple(rule for rule in newest if rule.filters), unfiltered)

    def _operation_chain(self, operation: str) -> _Chain:
        name = canonical_operation(operation)
        found = self._chains.get(name)
        if found is None:
            found = self._chains[name] = _Chain(name, self.levels(name))
        self._chains[operation] = found
        return found


def canonical_operation(operation: str) -> str:
    """The name of an operation or of an alias's target. Raise UsageError for an unknown one."""
    found = vocabulary().operations.get(operation)
    if found is None:
        raise UsageError(f"there is no operation {operation!r}{nearest(operation, vocabulary().operations)}")
    return found.name


def _is_self(request: SbplRequest) -> bool:
    return "self" in request.values.get("target", ())


def _decide_set_id(decision: SbplDecision) -> SbplDecision:
    """A decision on starting a set-id program, which macOS refuses unless the program leaves the sandbox."""
    if decision.decision == "deny" or (decision.rule is not None and decision.rule.has("no-sandbox")):
        return decision
    note = "a set-id program can be executed only by a rule with (with no-sandbox)"
    return dataclasses.replace(decision, decision="deny", stage="built-in", rule=None, note=note)
