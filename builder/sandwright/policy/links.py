"""The symbolic links that a program inside could replace, and the rules that they would move.

Rules hold for canonical paths. Where a path that the policy names leads through a link in a directory that
the sandbox can write, the sandbox can remove the link and put something else there: a restriction then holds
elsewhere than where the host looks, and the next run follows the new link.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from sandwright.policy.paths import is_inside
from sandwright.policy.provenance import Faults, PolicySource
from sandwright.policy.rules import PathRule, PathRules


@dataclass(frozen=True)
class ReplaceableLink:
    """A link that the sandbox can replace. `what` is the restriction that leads through it, to `target`."""

    path: str
    what: str
    target: str
    source: PolicySource

    def __str__(self) -> str:
        """`deny $PROJECT/.env leads through the link /p/.env to /p/real`."""
        return f"{self.what} leads through the link {self.path} to {self.target}"


class GrantedPath(Protocol):
    """A granted canonical path, and the links on the way to it."""

    @property
    def path(self) -> str:
        """The canonical path."""
        ...

    @property
    def written(self) -> str:
        """The path as the policy spells it."""
        ...

    @property
    def through(self) -> tuple[str, ...]:
        """The links on the way."""
        ...

    @property
    def source(self) -> PolicySource:
        """The position of the grant in the policy."""
        ...


def replaceable_links(rules: Iterable[PathRule], tree: PathRules) -> Iterator[ReplaceableLink]:
    """The links that restrictions lead through and that the sandbox can replace, each once."""
    seen: set[str] = set()
    for rule in rules:
        if rule.kind in ("deny", "readonly"):
            for link in through_replaceable(rule.through, tree):
                if link not in seen:
                    seen.add(link)
                    yield ReplaceableLink(link, _what(rule), rule.path, rule.source)


def grant_faults(grants: Iterable[GrantedPath], tree: PathRules, faults: Faults) -> None:
    """A fault for each grant that leads through such a link: a program that replaces it gains more."""
    for grant in grants:
        link = next(through_replaceable(grant.through, tree), "")
        if link:
            _add_link_fault(grant, f"{link}, which the sandbox can replace", faults)


def unreviewed_faults(
    grants: Iterable[GrantedPath], tree: PathRules, unreviewed: Iterable[str], faults: Faults
) -> None:
    """A fault for each grant through a link that a stranger may have chosen, where no sandbox can replace it.

    `unreviewed` are canonical directories with content of others. A grant of the project's own file through a
    link there is approved with the target (`loosening`). Grants of other layers need no approval.
    """
    roots = tuple(unreviewed)
    for grant in grants:
        if grant.source.layer in _APPROVED_LAYERS and not any(through_replaceable(grant.through, tree)):
            link = next((each for each in grant.through for root in roots if is_inside(each, root)), "")
            if link:
                _add_link_fault(grant, f"{link}, which came with the project", faults)


def _add_link_fault(grant: GrantedPath, link: str, faults: Faults) -> None:
    faults.add(grant.source, f"{grant.written} leads through the link {link}: name {grant.path} itself")


_APPROVED_LAYERS = ("floor", "user", "run")


def through_replaceable(through: Iterable[str], tree: PathRules) -> Iterator[str]:
    """The links that lie in a directory which the sandbox can write."""
    for link in through:
        if tree.changes_host(link.rpartition("/")[0] or "/"):
            yield link


def _what(rule: PathRule) -> str:
    match rule.origin:
        case "protected":
            return f"protect {rule.written}"
        case "policy":
            return rule.why
        case _:
            return f"{rule.kind} {rule.written}"
