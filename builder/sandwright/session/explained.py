"""Which paths a run was refused, by what its launcher recorded of it (`launcher/source/recorded.c`).

The record tells what programs asked of which path, and what was there. A path is told as refused where the
policy's rules close it to what was asked, the rule belongs to no place of the sandbox's own, and this user
could do the same outside. So what the host refuses too, or hasn't got, is not told.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sandwright.errors import SandwrightError
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.session.denials import line

MOST = 256
"""Different paths that are told."""

Access = Literal["read", "write"]
Resolve = Callable[[list[str]], ResolvedPolicy]

_CHANGES = frozenset({"write", "create", "remove"})
_LOOKS = frozenset({"look"})
_OWN = ("/dev", "/proc", "/sys")
"""Where mounts of the sandbox's own are: no rule of the policy is to blame for what they refuse."""

_MOST_BYTES = 1 << 29
_MOST_NAMES = 5
_MOST_ROUNDS = 4
"""How often the policy is resolved again, to see which edits allow what was refused."""


@dataclass(frozen=True)
class RefusedPath:
    """A path as it is outside, what was asked of it, how that was kept from it, and the rule that decides."""

    path: str
    access: Access
    how: Literal["hidden", "masked", "read-only", "placeholder"]
    rule: PathRule | None

    @property
    def granted(self) -> str:
        """What an edit has to list: a mount needs a path that is there."""
        return self.path if os.path.lexists(self.path) else os.path.dirname(self.path)  # noqa: PTH120


def refused_paths(record: Path, policy: ResolvedPolicy) -> list[RefusedPath]:
    """What was refused, each path and access once. Raise OSError and ValueError for what is no record."""
    found: dict[tuple[str, str], RefusedPath] = {}
    for said in _accesses(record):
        for each in _judged(said, policy):
            if len(found) < MOST:
                found.setdefault((each.path, each.access), each)
    return list(found.values())


def _accesses(record: Path) -> Iterator[dict[str, Any]]:
    with record.open("rb") as file:
        content = file.read(_MOST_BYTES)
    for data in map(json.loads, content.decode("ascii").splitlines()):
        if "path" in data:
            yield data


def _judged(said: dict[str, Any], policy: ResolvedPolicy) -> Iterator[RefusedPath]:
    kinds = frozenset(said["kinds"])
    path = _text(said.get("real", said["path"]))
    if not path.startswith("/") or any(_is_in(path, own) for own in _OWN):
        return
    rules = policy.filesystem.tree.deciding(path)
    rule = rules[0] if rules else None
    if rule is not None and rule.private:
        return
    if rule is None or not rule.readable:
        how: Literal["hidden", "masked"] = "hidden" if said["found"] == "absent" else "masked"
        seen = how == "masked" and kinds <= _LOOKS  # what stands in for it was looked at
        if not seen and _may_read(path):
            yield RefusedPath(path, "write" if kinds & _CHANGES else "read", how, rule)
    elif kinds & _CHANGES and not rule.writable and said["found"] != "other" and _may_change(path, kinds):
        absent = said["found"] != "absent" and not os.path.lexists(path)
        yield RefusedPath(path, "write", "placeholder" if absent else "read-only", rule)


def _text(escaped: str) -> str:
    """A name as Python has it, of one whose characters are its bytes."""
    return os.fsdecode(escaped.encode("latin-1"))


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _may_read(path: str) -> bool:
    """Whether this user could outside: it is there, and its rights let them."""
    try:
        return os.access(path, os.R_OK) or os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def _may_change(path: str, kinds: frozenset[str]) -> bool:
    """The same of what was asked; a new name, or one that goes, is its directory's matter."""
    above = Path(path).parent
    try:
        if os.path.lexists(path) and "write" in kinds:
            return os.access(path, os.W_OK)
        return os.access(above, os.W_OK | os.X_OK)
    except (OSError, ValueError):
        return False


def denials(file: str, resolve: Resolve) -> list[dict[str, object]]:
    """What was refused, as `session.denials` tells it. `resolve` gives the policy with further settings.

    Raise OSError and ValueError for what is no record, SandwrightError where the policy holds no more.
    """
    policy = resolve([])
    refused = refused_paths(Path(file), policy)
    allowing = edits(refused, resolve)
    found: list[dict[str, object]] = []
    for each in refused:
        field, source = _blamed(each.rule, policy)
        edit, opens = allowing.get((each.path, each.access), (None, ""))
        head = {
            "kind": "path",
            "what": line(each.path),
            "access": each.access,
            "how": each.how,
            "count": None,
        }
        found.append({**head, "field": field, "source": source, "edit": edit, "opens": opens})
    return found


def _blamed(rule: PathRule | None, policy: ResolvedPolicy) -> tuple[str, str]:
    if rule is None:
        return "filesystem.read", str(policy.source("filesystem.read"))
    return rule.source.field.partition("[")[0] or f"{rule.kind} {rule.written or rule.path}", str(rule.source)


def edits(refused: Iterable[RefusedPath], resolve: Resolve) -> dict[tuple[str, str], tuple[str, str]]:
    """By path and access: an edit of the policy that allows it, and what else it opens.

    Each was tried: `resolve` gives the policy with further settings, or raises SandwrightError. Paths that
    lie in each other are tried one after the other, so that none is taken for allowed by another's edit.
    """
    left = [each for each in refused if _is_plain(each.granted)]
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for _ in range(_MOST_ROUNDS):
        now: list[RefusedPath] = []
        for each in left:
            if not any(_lie_in_each_other(each.granted, one.granted) for one in now):
                now.append(each)
        found |= _tried(now, resolve)
        left = [each for each in left if each not in now]
    return found


def _lie_in_each_other(one: str, other: str) -> bool:
    """Of the same path there is one edit."""
    return one != other and (_is_in(one, other) or _is_in(other, one))


def _tried(refused: list[RefusedPath], resolve: Resolve) -> dict[tuple[str, str], tuple[str, str]]:
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
            _opened(each, policy),
        )
        for each in refused
        if policy.filesystem.tree.allows(each.access, each.path)
    }


def _opened(refused: RefusedPath, policy: ResolvedPolicy) -> str:
    """What else an edit opens, by the rules of the policy that has it."""
    verb = "read" if refused.access == "read" else "read and changed"
    runs = "; programs of the host run or read it" if _is_protected(refused.rule) else ""
    if not Path(refused.granted).is_dir():
        return f"nothing but this file, to be {verb}{runs}"
    tree, granted = policy.filesystem.tree, refused.granted
    closed = sorted(
        rule.path
        for rule in policy.filesystem.rules
        if rule.path != granted and _is_in(rule.path, granted) and not tree.allows(refused.access, rule.path)
    )
    names = ", ".join(closed[:_MOST_NAMES]) + (" …" if len(closed) > _MOST_NAMES else "")
    but = f", but {line(names)}" if closed else ""
    return f"all that is in {granted}, now and later{but}, to be {verb}{runs}"


def _is_protected(rule: PathRule | None) -> bool:
    return rule is not None and rule.origin == "protected"


def _is_plain(path: str) -> bool:
    """Whether it can stand in a line of YAML, and of a terminal, as it is."""
    return path.isascii() and path.isprintable() and not set(path) & set("'\"{}[]$`\\*")
