"""Makes the rules of `network.http` that `learn` proposes, of the requests that were let through.

A rule has the methods that were used, and paths in which numbers and hashes are `*`. No rule goes beyond the
current policy's.
"""

from __future__ import annotations

import os.path
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sandwright.learn.proposal import RuleItem
from sandwright.learn.tables import MOST_PATHS, SIBLINGS
from sandwright.policy.http_rules import HttpHost, HttpRule, http_path, pattern_regex, tools_regex
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.session.access_log import RecordedRequest

_VARIABLE = re.compile(r"\d+|[0-9a-f]{12,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""A segment that names one object: a number, a hash, a UUID."""

_GIT = re.compile(r"/(?P<repository>.+?)(\.git)?/(?:info/refs|git-upload-pack|(?P<push>git-receive-pack))")
_ANY = frozenset({""})
"""In place of methods: a WebSocket's rule has none."""


def http_items(requests: Iterable[RecordedRequest], policy: ResolvedPolicy) -> Iterator[RuleItem]:
    """The rules for the requests, by host. A host with a secret stays, without methods if it was not used."""
    found = list(requests)
    secrets = {(each.host, each.port) for each in policy.credentials.http}
    for host in policy.network.http:
        sent = [each for each in found if each.host == f"{host.host}:{host.port}"]
        items = [*_git_items(host, sent), *_tool_items(host, sent), *_path_items(host, sent)]
        yield from items
        if not items and (host.host, host.port) in secrets:
            yield _item(host, "no request was sent, and it has a secret", {"methods": []})


def _item(host: HttpHost, why: str, rule: Mapping[str, Any]) -> RuleItem:
    private = {"private": True} if host.private else {}
    words = " ".join(str(each) for each in rule.values())
    return RuleItem(f"{host.name} {words}", why, rule={"host": host.name, **rule, **private})


def _is_git(host: HttpHost, each: RecordedRequest) -> re.Match[str] | None:
    return _GIT.fullmatch(each.path) if host.has_git else None


def _is_tools(host: HttpHost, each: RecordedRequest) -> bool:
    return any(re.search(tools_regex(path), each.path, re.IGNORECASE) for path in host.tool_paths)


def _git_items(host: HttpHost, sent: Iterable[RecordedRequest]) -> Iterator[RuleItem]:
    pushed: dict[str, bool] = {}
    for each in sent:
        if match := _is_git(host, each):
            pushed[match["repository"]] = pushed.get(match["repository"], False) or bool(match["push"])
    for access, push in (("read", False), ("write", True)):
        repositories = sorted(name for name, was in pushed.items() if was is push and "*" not in name)
        if repositories:
            why = "was pushed to" if push else "was fetched"
            yield _item(host, why, {"git": access, "repos": repositories})


def _tool_items(host: HttpHost, sent: Iterable[RecordedRequest]) -> Iterator[RuleItem]:
    tools: dict[str, set[str]] = defaultdict(set)
    for each in sent:
        if _is_tools(host, each) and _is_name(each.path):
            tools[each.path] |= {each.tool} - {""}
    for path, names in sorted(tools.items()):
        yield _item(host, "tools were called", {"paths": [path], "mcp": {"tools": sorted(names)}})


def _path_items(host: HttpHost, sent: Iterable[RecordedRequest]) -> Iterator[RuleItem]:
    methods: dict[str, frozenset[str]] = defaultdict(frozenset)
    for each in sent:
        if _is_name(each.path) and not _is_git(host, each) and not _is_tools(host, each):
            methods[_generalised(host, each)] |= {each.method}
    by_methods: dict[frozenset[str], list[str]] = defaultdict(list)
    for path, used in methods.items():
        by_methods[_ANY if "" in used else used].append(path)
    for used, paths in sorted(by_methods.items(), key=lambda each: sorted(each[0])):
        named = {} if used == _ANY else {"methods": sorted(used)}
        yield _item(host, f"{len(paths)} paths", {**named, "paths": _collapsed_paths(host, used, paths)})


def _is_name(path: str) -> bool:
    """Whether a rule can name a path, and no other."""
    try:
        http_path(path)
    except ValueError:
        return False
    return "*" not in path


def _generalised(host: HttpHost, each: RecordedRequest) -> str:
    parts = ["*" if _VARIABLE.fullmatch(part) else part for part in each.path.split("/")]
    pattern = "/".join(parts)
    return pattern if _is_pattern_allowed(host, frozenset({each.method}), pattern) else each.path


def _collapsed_paths(host: HttpHost, methods: frozenset[str], paths: Iterable[str]) -> list[str]:
    """With `*` for many paths of one directory, and `**` for the directory of all where many are left."""
    below: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        below[os.path.dirname(path).rstrip("/")].append(path)
    found: list[str] = []
    for directory, names in below.items():
        whole = f"{directory}/*"
        many = len(names) >= SIBLINGS and _is_pattern_allowed(host, methods, whole)
        found += [whole] if many else names
    common = f"{os.path.commonpath(found).rstrip('/')}/**"
    if len(found) > MOST_PATHS and "*" not in common[:-2] and _is_pattern_allowed(host, methods, common):
        return [common]
    return sorted(found)


def _is_pattern_allowed(host: HttpHost, methods: frozenset[str], pattern: str) -> bool:
    """Whether one rule of the current policy allows all requests of a pattern."""
    return any(_includes_rule(rule, methods, pattern) for rule in host.rules)


def _includes_rule(rule: HttpRule, methods: frozenset[str], pattern: str) -> bool:
    if rule.tools is not None or rule.query is not None:
        return False
    if rule.methods is not None and not methods <= rule.methods:
        return False
    narrow = pattern.split("/")[1:]
    return rule.paths is None or any(_includes(each.split("/")[1:], narrow) for each in rule.paths)


def _includes(wide: Sequence[str], narrow: Sequence[str]) -> bool:
    """Whether a pattern includes another one, by segments; False where that takes more."""
    if not wide or not narrow:
        return not wide and not narrow
    if wide[0] == "**":
        last = len(wide) == 1
        return last or any(_includes(wide[1:], narrow[at:]) for at in range(len(narrow) + 1))
    fits = wide[0] == narrow[0] or (
        "**" not in narrow[0]
        and (wide[0] == "*" or "*" not in narrow[0])
        and bool(re.search(pattern_regex(f"/{wide[0]}"), f"/{narrow[0].replace('*', 'x')}"))
    )
    return fits and _includes(wide[1:], narrow[1:])
