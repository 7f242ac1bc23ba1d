"""The order in which libseccomp tries the rules of one call.

It is not the order of the profile. The comparisons of all rules become a tree, in which those of higher
arguments and greater values stand first, upper halves before lower ones (libseccomp 2.5.4, src/db.c:
_db_chain_lt, _db_tree_add). It matters only where rules with different actions overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sandwright.seccomp.action import Action

R = TypeVar("R")
Rank = tuple[int, int, int]


@dataclass(frozen=True)
class Step:
    """One comparison of half an argument. Of two, the one with the higher `rank` is tried first.

    Steps with equal `identity` are the same node of the tree.
    """

    rank: Rank
    identity: tuple[object, ...]


@dataclass
class Node(Generic[R]):
    """A comparison in the tree, and what follows when it holds: a rule, or further comparisons."""

    step: Step
    rule: tuple[Action, R] | None = None
    below: list[Node[R]] = field(default_factory=list)


@dataclass
class Tree(Generic[R]):
    """The rules of one call. `clashes` are pairs that libseccomp refuses: one says what the other unsays."""

    nodes: list[Node[R]] = field(default_factory=list)
    clashes: list[tuple[R, R]] = field(default_factory=list)

    def add(self, steps: Sequence[Step], action: Action, rule: R) -> None:
        """Put in a rule that has at least one step."""
        level = self.nodes
        for step in steps[:-1]:
            node = _place(level, step)
            if node.rule is not None:
                return  # A shorter rule is there, and wins.
            level = node.below
        node = _place(level, steps[-1])
        others = list(_rules([node]))
        self.clashes += [(found, rule) for other, found in others if other != action]
        if not any(other != action for other, _ in others):
            node.rule, node.below = node.rule or (action, rule), []

    def ordered(self) -> Iterator[R]:
        """The rules that are left, in the order in which they are tried."""
        return (rule for _, rule in _rules(self.nodes))


def _place(level: list[Node[R]], step: Step) -> Node[R]:
    """The node of a step on one level, made where it belongs if it is not there."""
    made: Node[R] = Node(step)
    for index, node in enumerate(level):
        if node.step.identity == step.identity:
            return node
        if node.step.rank < step.rank:
            level.insert(index, made)
            return made
    level.append(made)
    return made


def _rules(nodes: Sequence[Node[R]]) -> Iterator[tuple[Action, R]]:
    for node in nodes:
        if node.rule is not None:
            yield node.rule
        yield from _rules(node.below)
