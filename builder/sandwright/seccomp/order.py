"""The order in which libseccomp tries the rules of one call.

It is not the order of the profile. The comparisons of all rules become a tree, in which those of higher
arguments and greater values stand first, upper halves before lower ones (libseccomp 2.5.4, src/db.c:
_db_chain_lt, _db_tree_add). It matters only where rules with different actions overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sandwright.seccomp.abi import Abi
from sandwright.seccomp.model import U32, ArgumentComparison, ComparisonOperator, SeccompRule

Rank = tuple[int, int, int]


@dataclass(frozen=True)
class HalfComparison:
    """One comparison of half an argument. Of two, the one with the higher `rank` is tried first.

    Those with equal `identity` are the same node of the tree.
    """

    rank: Rank
    identity: tuple[object, ...]


@dataclass
class _Node:
    """A comparison in the tree, and its consequence: a rule, or further comparisons."""

    half: HalfComparison
    rule: SeccompRule | None = None
    below: list[_Node] = field(default_factory=list)


@dataclass
class RuleTree:
    """The rules of one call. `clashes`: equal comparisons with other actions, which libseccomp refuses."""

    abi: Abi
    nodes: list[_Node] = field(default_factory=list)
    clashes: list[tuple[SeccompRule, SeccompRule]] = field(default_factory=list)

    def add(self, rule: SeccompRule) -> None:
        """Put in a rule that has at least one comparison."""
        ordered = sorted(rule.when, key=lambda comparison: comparison.argument)
        halves = [half for comparison in ordered for half in _halves(comparison, self.abi)]
        level = self.nodes
        for half in halves[:-1]:
            node = _insert_comparison(level, half)
            if node.rule is not None:
                return  # A shorter rule is there, and wins.
            level = node.below
        node = _insert_comparison(level, halves[-1])
        others = [other for other in _rules_in_order([node]) if other.action != rule.action]
        self.clashes += [(other, rule) for other in others]
        if not others:
            node.rule, node.below = node.rule or rule, []

    def ordered(self) -> Iterator[SeccompRule]:
        """The rules that are left, in the order in which they are tried."""
        return _rules_in_order(self.nodes)


def _insert_comparison(level: list[_Node], half: HalfComparison) -> _Node:
    """The node of a comparison on one level, made where it belongs if it is not there."""
    made = _Node(half)
    for index, node in enumerate(level):
        if node.half.identity == half.identity:
            return node
        if node.half.rank < half.rank:
            level.insert(index, made)
            return made
    level.append(made)
    return made


def _rules_in_order(nodes: Sequence[_Node]) -> Iterator[SeccompRule]:
    for node in nodes:
        if node.rule is not None:
            yield node.rule
        yield from _rules_in_order(node.below)


def _halves(comparison: ArgumentComparison, abi: Abi) -> Iterator[HalfComparison]:
    """The comparisons that libseccomp makes of one, the upper half first."""
    operator = comparison.operator
    mergeable = operator in (ComparisonOperator.EQ, ComparisonOperator.MASKED_EQ)
    kind = _KINDS.get(operator, 3)
    for half in (1, 0) if abi.is_64_bit else (0,):
        value, mask = comparison.value >> 32 * half & U32, comparison.mask >> 32 * half & U32
        rank = (2 * comparison.argument + half, kind, -value if kind == 2 else value)
        same = (comparison.argument, half, value, mask, operator)
        yield HalfComparison(rank, same if mergeable else (comparison, half))


_KINDS = {
    ComparisonOperator.GT: 1,
    ComparisonOperator.GE: 1,
    ComparisonOperator.LT: 2,
    ComparisonOperator.LE: 2,
}
"""The rank of comparisons of one half in libseccomp; equality and its opposite come first, with 3."""
