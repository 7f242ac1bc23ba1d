"""The paths that a run was denied (`--explain-denials`), by its launcher's record (`recorded.c`).

The record has the accesses of programs to each path, and the path's kind. A path is reported as refused if
the policy's rules deny the access, the rule is not about one of the sandbox's private directories, and this
user could do the same outside. So accesses that the host refuses, too, and paths that it does not have, are
not reported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sandwright.errors import SandwrightError
from sandwright.policy.explain import how_to_lift
from sandwright.policy.names import cache_word
from sandwright.policy.paths import is_inside
from sandwright.policy.provenance import LAYERS
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.session.access_log import CHANGES, Access
from sandwright.session.denials import Denial, Denials, OmittedDenials, is_plain, printable_line

MOST = 256
"""The most different paths in a report; further ones are counted."""

Way = Literal["read", "write"]
Resolve = Callable[[list[str]], ResolvedPolicy]

_LOOKS = frozenset({"look"})
_KERNEL = "/sys"
"""The kernel's file systems, read-only in each sandbox: no rule of the policy causes their refusals."""

_PROJECT_RANK = LAYERS.index("project")
_MOST_NAMES = 5
_MOST_ROUNDS = 4
"""The number of times that the policy is resolved again, to find the edits that allow a refused access."""


@dataclass(frozen=True)
class DeniedPath:
    """A path outside, the access, the kind of denial, and the deciding rule."""

    path: str
    access: Way
    how: Literal["hidden", "masked", "read-only", "placeholder"]
    rule: PathRule | None

    @property
    def granted(self) -> str:
        """The path that an edit has to list: a mount needs a path that exists."""
        return self.path if os.path.lexists(self.path) else os.path.dirname(self.path)  # noqa: PTH120


def refused_paths(accesses: Iterable[Access], policy: ResolvedPolicy) -> list[DeniedPath]:
    """The refused accesses, each path and access once."""
    found: dict[tuple[str, str], DeniedPath] = {}
    for access in accesses:
        for each in _judge_access(access, policy):
            found.setdefault((each.path, each.access), each)
    return list(found.values())


def _judge_access(access: Access, policy: ResolvedPolicy) -> Iterator[DeniedPath]:
    path, kinds = access.real, access.kinds
    if is_inside(path, _KERNEL):
        return
    rules = policy.filesystem.tree.deciding(path)
    rule = rules[0] if rules else None
    if rule is not None and (rule.private or _was_made(rule, access, policy)):
        return
    if rule is None or not rule.readable:
        how: Literal["hidden", "masked"] = "hidden" if access.found == "absent" else "masked"
        seen = how == "masked" and kinds <= _LOOKS  # what stands in for it was looked at
        if not seen and _may_read(path):
            yield DeniedPath(path, "write" if kinds & CHANGES else "read", how, rule)
    elif kinds & CHANGES and not rule.writable and access.found != "other" and _may_change(path, kinds):
        absent = access.found != "absent" and not os.path.lexists(path)
        yield DeniedPath(path, "write", "placeholder" if absent else "read-only", rule)


def _was_made(rule: PathRule, access: Access, policy: ResolvedPolicy) -> bool:
    """Whether the run itself made a name that is protected only where it exists (`policy.nested`)."""
    return access.found == "absent" and rule.path in policy.facts.autorun


def _may_read(path: str) -> bool:
    """Whether this user could read the path outside: it exists, and its mode allows it."""
    try:
        return os.access(path, os.R_OK) or os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def _may_change(path: str, kinds: frozenset[str]) -> bool:
    """Whether this user could make the change outside; for a new or removed name, the directory decides."""
    above = Path(path).parent
    try:
        if os.path.lexists(path) and "write" in kinds:
            return os.access(path, os.W_OK)
        return os.access(above, os.W_OK | os.X_OK)
    except (OSError, ValueError):
        return False


def path_denials(accesses: Iterable[Access], resolve: Resolve) -> Denials:
    """The denied paths, with the reasons. `resolve` gives the policy with further settings.

    Raise SandwrightError if the policy can no longer be resolved.
    """
    policy = resolve([])
    refused = refused_paths(accesses, policy)
    remaining, refused = len(refused[MOST:]), refused[:MOST]
    allowing = edits([each for each in refused if not _has_better_advice(each, policy)], resolve)
    found: Denials = []
    for each in refused:
        field, source = _blamed(each.rule, policy)
        edit, opens = allowing.get((each.path, each.access), (None, ""))
        found.append(
            Denial(
                kind="path",
                what=printable_line(each.path),
                count=None,
                field=field,
                source=source,
                edit=edit,
                opens=opens,
                advice="" if edit else _lifting_key(each, policy),
                access=each.access,
                how=each.how,
            )
        )
    return [*found, *([OmittedDenials(remaining)] if remaining else [])]


def _blamed(rule: PathRule | None, policy: ResolvedPolicy) -> tuple[str, str]:
    if rule is None:
        return "filesystem.read", str(policy.source("filesystem.read"))
    return rule.source.field.partition("[")[0] or f"{rule.kind} {rule.written or rule.path}", str(rule.source)


def _lifting_key(refused: DeniedPath, policy: ResolvedPolicy) -> str:
    """The advice for a path for which no edit is proposed."""
    path = printable_line(refused.path)
    if refused.rule is not None and (refused.rule.kind == "deny" or _is_protected(refused.rule)):
        return how_to_lift(refused.rule, path, _PROJECT_RANK)
    if word := _cache_to_add(refused, policy):
        return f"to keep a cache of {word} for this project, add `cache: [{word}]`"
    if _opens_whole_home(refused.granted, policy):
        edit = f"filesystem: {{{refused.access}: ['{path}']}}"
        own_home = "or give the project a home of its own: `run --preset own-home`"
        return f"create {path} on the host first; then `{edit}` allows it; {own_home}"
    return ""


def _has_better_advice(refused: DeniedPath, policy: ResolvedPolicy) -> bool:
    """Whether an edit that lists the path would be worse than the advice of `_lifting_key`."""
    return _opens_whole_home(refused.granted, policy) or bool(_cache_to_add(refused, policy))


def _cache_to_add(refused: DeniedPath, policy: ResolvedPolicy) -> str:
    """The word of `cache` that moves a tool's refused writes to a cache of the project; "" if none would."""
    word = cache_word(refused.path, policy.facts.home) if refused.how == "read-only" else ""
    listed = {each.value for each in policy.settings.items("cache")}
    return "" if word in listed else word


def _opens_whole_home(path: str, policy: ResolvedPolicy) -> bool:
    """Whether a grant would open the whole home: never proposed for one file."""
    return is_inside(policy.facts.home, path)


def edits(refused: Iterable[DeniedPath], resolve: Resolve) -> dict[tuple[str, str], tuple[str, str]]:
    """By path and access: an edit of the policy that allows it, and the other accesses that it opens.

    Each was tried: `resolve` gives the policy with further settings, or raises SandwrightError. Paths that
    lie in each other are tried one after the other, so that none is taken for allowed by another's edit.
    """
    remaining = [each for each in refused if is_plain(each.granted)]
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for _ in range(_MOST_ROUNDS):
        now: list[DeniedPath] = []
        for each in remaining:
            if not any(_lie_in_each_other(each.granted, one.granted) for one in now):
                now.append(each)
        found |= _tried(now, resolve)
        remaining = [each for each in remaining if each not in now]
    return found


def _lie_in_each_other(one: str, other: str) -> bool:
    """Of the same path there is one edit."""
    return one != other and (is_inside(one, other) or is_inside(other, one))


def _tried(refused: list[DeniedPath], resolve: Resolve) -> dict[tuple[str, str], tuple[str, str]]:
    if not refused:
        return {}
    settings = [
        f"filesystem.{access}={json.dumps([each.granted for each in refused if each.access == access])}"
        for access in sorted({each.access for each in refused})
    ]
    try:
        policy = resolve(settings)
    except SandwrightError:
        half = len(refused) // 2
        return {} if half == 0 else _tried(refused[:half], resolve) | _tried(refused[half:], resolve)
    return {
        (each.path, each.access): (
            f"filesystem: {{{each.access}: ['{each.granted}']}}",
            _also_opened(each, policy),
        )
        for each in refused
        if policy.filesystem.tree.allows(each.access, each.path)
    }


def _also_opened(refused: DeniedPath, policy: ResolvedPolicy) -> str:
    """The other paths that an edit opens, by the rules of the edited policy."""
    verb = "read" if refused.access == "read" else "read and changed"
    runs = "; programs of the host run or read it" if _is_protected(refused.rule) else ""
    if not Path(refused.granted).is_dir():
        return f"nothing but this file, to be {verb}{runs}"
    tree, granted = policy.filesystem.tree, refused.granted
    closed = sorted(
        rule.path
        for rule in policy.filesystem.rules
        if rule.path != granted
        and is_inside(rule.path, granted)
        and not tree.allows(refused.access, rule.path)
    )
    names = ", ".join(closed[:_MOST_NAMES]) + (" …" if len(closed) > _MOST_NAMES else "")
    but = f", but {printable_line(names)}" if closed else ""
    return f"all that is in {granted}, now and later{but}, to be {verb}{runs}"


def _is_protected(rule: PathRule | None) -> bool:
    return rule is not None and rule.origin == "protected"
