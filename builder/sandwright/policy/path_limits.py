"""The managed policy's limits for files: nothing may be readable or writable that the floor does not let be.

The limits that each list of the floor sets. `read` given: nothing else may be read, except the files that a
program needs to start and the sandbox's own directories. `write` given: nothing else may be written. `deny`,
`readonly` and `protect`: stay denied and read-only, even if a later layer names a more specific path. A list
that is absent limits nothing; a writable path is readable, so a floor with `read` and without `write` limits
both.

Between two paths at which either side has a rule nothing changes, so comparing both sides at those paths
compares them everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from sandwright.policy.layers import MergedSettings
from sandwright.policy.names import PathKind
from sandwright.policy.path_resolver import PathResolver
from sandwright.policy.paths import same_name
from sandwright.policy.provenance import BUILT_IN, Faults, PolicySource
from sandwright.policy.resolved import Filesystem
from sandwright.policy.rules import Action, PathRule, PathRules

_ALLOWED_ALWAYS = ("own", "home", "startup")


def check_paths(
    floor: MergedSettings, filesystem: Filesystem, resolver: PathResolver, faults: Faults
) -> None:
    """Add a fault for each rule of a policy that lets more be read or written than the floor does."""
    limits = _PathLimits(floor, filesystem, resolver)
    seen: set[tuple[PolicySource, Action]] = set()
    paths = dict.fromkeys(rule.path for rule in (*filesystem.rules, *limits.rules))
    for path in paths:
        deciding = filesystem.tree.deciding(path)
        if not deciding or deciding[0].origin in _ALLOWED_ALWAYS:
            continue
        for action in ("read", "write"):
            if not (deciding[0].readable if action == "read" else deciding[0].writable):
                continue
            limit = limits.limit(action, path)
            if limit is not None and (deciding[0].source, action) not in seen:
                seen.add((deciding[0].source, action))
                faults.add(deciding[0].source, _message(deciding[0], action, path, limit))


def check_sockets(
    floor: MergedSettings, settings: MergedSettings, resolver: PathResolver, faults: Faults
) -> None:
    """Add a fault for each Unix socket of a policy that a floor with such a list doesn't have in it."""
    name = "network.unix_sockets"
    if name not in floor.lists:
        return
    quiet = PathResolver(resolver.facts, Faults())
    limits = {target[0] for target in map(quiet.canonical_path, floor.items(name)) if target}
    for item in settings.items(name):
        target = quiet.canonical_path(item)
        if target and target[0] not in limits:
            faults.add(item.source, f"{item.value} is not in the floor's {name} ({floor.given[name]})")


class _PathLimits:
    """The floor's rules, and the most that they let be read and written."""

    def __init__(self, floor: MergedSettings, filesystem: Filesystem, resolver: PathResolver) -> None:
        # What the floor spells wrong is a fault of the policy that it is part of, found there.
        quiet = PathResolver(resolver.facts, Faults())
        self.rules = tuple(quiet.listed(floor))
        key = same_name(resolver.facts)
        readable = [*self.rules]
        writable = [rule for rule in self.rules if rule.kind != "read" or "filesystem.write" in floor.lists]
        if "filesystem.read" in floor.lists:
            readable += [_root_rule("deny", floor.given["filesystem.read"])]
        else:
            readable += [_root_rule("read", BUILT_IN)]
        if "filesystem.write" in floor.lists:
            writable += [_root_rule("deny", floor.given["filesystem.write"])]
        else:
            writable += [_root_rule("write", BUILT_IN)]
        self._readable = PathRules(_weakest_root(readable), key=key)
        self._writable = PathRules(_weakest_root(writable), key=key)
        floor_protections = [each for each in filesystem.protections if each.names[0].source.layer == "floor"]
        self._guarded = PathRules([_root_rule("write", BUILT_IN)], protections=floor_protections, key=key)
        self._startup = PathRules(filesystem.startup, key=key)

    def limit(self, action: Action, path: str) -> PolicySource | None:
        """The rule of the floor that forbids to read or write a path; None when it is allowed."""
        if action == "write" and not self._guarded.allows("write", path):
            return self._guarded.deciding(path)[0].source
        rule = (self._readable if action == "read" else self._writable).deciding(path)[0]
        allowed = rule.readable if action == "read" else rule.writable
        if allowed or (rule.why == "everything" and action == "read" and self._startup.allows("read", path)):
            return None
        return rule.source


def _root_rule(kind: PathKind, source: PolicySource) -> PathRule:
    return PathRule("/", kind, "listed", source, "/", "everything")


def _weakest_root(rules: Iterable[PathRule]) -> list[PathRule]:
    """The rules, where one that the floor lists for `/` replaces the one that stands for everything."""
    rules = list(rules)
    listed = any(rule.path == "/" and rule.why != "everything" for rule in rules)
    return [rule for rule in rules if not (listed and rule.why == "everything")]


def _message(rule: PathRule, action: Action, path: str, limit: PolicySource) -> str:
    verb = "be read" if action == "read" else "be written"
    location = "" if path == rule.path else f", with {rule.path}"
    where = f"{limit} {limit.field}".strip()
    return f"{rule.written or rule.path} lets {path} {verb}{location}, which the floor does not ({where})"
