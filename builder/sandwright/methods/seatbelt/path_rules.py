"""A policy's rules for paths, in Seatbelt's order: shallow before deep, so that the deepest decides.

Among filtered rules that name the same operation the last one that matches decides. Between two places for
which the policy has a rule nothing changes, so it is enough to have a rule for each place where the answer
differs from that of the directory above. Protected names go into patterns, for all directories of a depth
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sandwright.methods.seatbelt.quoting import escape_regex
from sandwright.methods.seatbelt.spellings import Spellings
from sandwright.policy.facts import DARWIN_LINKS, FIRMLINKS
from sandwright.policy.paths import ancestors, below, components, depth, is_inside, parent, same_name
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import Action, PathRule

DATA = "/System/Volumes/Data"
_ACTIONS: tuple[Action, ...] = ("read", "write")
MAX_PATTERN = 8000
"""Characters of the patterns of one rule: libsandbox refuses more than about 64 KiB (NixOS/nix#4119)."""


@dataclass(frozen=True)
class Filter:
    """One filter for paths. `names` marks a pattern that the list of protected names is appended to."""

    kind: str
    text: str
    comment: str = ""
    names: int | None = None


@dataclass(frozen=True)
class SeatbeltStatement:
    """A rule for reading or writing: whether it allows, and the filters of which one has to match."""

    action: Action
    allow: bool
    filters: tuple[Filter, ...]


@dataclass
class Places:
    """The statements of a profile about paths.

    `statements` are in order. `names` are patterns of protected names, `folders` those of the directories on
    the way to them, by number. `pinned` can't be removed, renamed or put in place. `kept` can't be removed or
    renamed. `seen` are paths whose metadata can be read.
    """

    statements: list[SeatbeltStatement] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    pinned: list[Filter] = field(default_factory=list)
    kept: list[Filter] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)


def places(policy: ResolvedPolicy) -> Places:
    """The statements for a policy's path rules. Takes time in proportion to the number of rules."""
    return _Placing(policy).run()


class _Placing:
    def __init__(self, policy: ResolvedPolicy) -> None:
        files = policy.filesystem
        self._policy = policy
        self._tree = files.tree
        self._key = same_name(policy.facts)
        self._spellings = Spellings(self._key)
        self._points = dict.fromkeys(rule.path for rule in (*files.rules, *files.startup))
        self._folded = {self._fold_names(path) for path in self._points}
        self._granted_paths: dict[Action, set[str]] = {"read": set(), "write": set()}
        self._known: dict[str, tuple[PathRule, ...]] = {}
        self._out = Places()
        self._groups: dict[tuple[int, tuple[str, ...]], list[str]] = {}
        self._covered: set[str] = set()
        self._restricted: dict[str, None] = {}

    def run(self) -> Places:
        self._gather_names()
        levels: dict[int, list[str]] = {}
        for path in self._points:
            levels.setdefault(depth(path), []).append(path)
        for root_depth, _ in self._groups:
            levels.setdefault(root_depth, [])
        for level in sorted(levels):
            self._place_depth(sorted(levels[level]))
            for (root_depth, names), roots in self._groups.items():
                if root_depth == level:
                    self._protect(names, roots)
        self._pin_restricted()
        self._allow_traversal()
        return self._out

    def _gather_names(self) -> None:
        """Part the protected names into those that a pattern covers, and points of their own."""
        by_root: dict[str, dict[str, None]] = {}
        for each in self._policy.filesystem.protections:
            lifted = {self._fold_names(path) for path in each.exceptions}
            names = dict.fromkeys(name.value for name in each.names)
            for root in each.roots:
                remaining = (
                    [n for n in names if self._fold_names(below(root, n)) not in lifted] if lifted else names
                )
                by_root.setdefault(root, {}).update(dict.fromkeys(remaining))
        plain: dict[tuple[str, ...], tuple[tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]] = {}
        for root, found in by_root.items():
            key = tuple(found)
            if key not in plain:
                plain[key] = (key, _by_folder(key))
            self._place_names(root, *plain[key])

    def _place_names(
        self, root: str, names: tuple[str, ...], folders: Sequence[tuple[str, tuple[str, ...]]]
    ) -> None:
        apart = {
            name
            for folder, inside in folders
            if self._fold_names(below(root, folder)) in self._folded
            for name in inside
        }
        for name in apart:
            self._points.setdefault(below(root, name))
        deciding = self._deciding_rules(root)
        if deciding and deciding[0].writable and not deciding[0].private:
            remaining = tuple(name for name in names if name not in apart) if apart else names
            self._groups.setdefault((depth(root), remaining), []).append(root)
            self._covered.update(below(root, name) for name in self._names_with_rules(root, remaining))

    def _names_with_rules(self, root: str, names: Iterable[str]) -> Iterator[str]:
        """The names at which there is a rule too."""
        inside = root if root != "/" else ""
        protected_names = set(names)
        for rule in self._policy.filesystem.protected:
            if rule.path.startswith(f"{inside}/") and rule.path[len(inside) + 1 :] in protected_names:
                yield rule.path[len(inside) + 1 :]

    def _place_depth(self, paths: Sequence[str]) -> None:
        """The statements for the places of one depth, which don't overlap."""
        changed: dict[tuple[Action, bool], list[Filter]] = {}
        grants: list[tuple[Action, str]] = []
        for action, path in ((action, path) for path in paths for action in _ACTIONS):
            allowed = self._is_allowed(action, path)
            if allowed == (path != "/" and self._is_allowed(action, parent(path))):
                continue
            if allowed:
                grants.append((action, path))
                changed.setdefault((action, True), []).append(self._allowing(path))
            elif action == "read" or path not in self._covered:
                self._restricted.setdefault(path)
                changed.setdefault((action, False), []).extend(self._denying(action, path))
        for (action, allowed), filters in sorted(changed.items()):
            for chunk in _split_filters(filters):
                self._out.statements.append(SeatbeltStatement(action, allowed, chunk))
        for action, path in grants:
            self._granted_paths[action].add(path)

    def _allowing(self, path: str) -> Filter:
        return Filter("subpath", self._native_path(path), self._rule_comment(path))

    def _denying(self, action: Action, path: str) -> Iterator[Filter]:
        prefix = self._allowed_ancestor(action, path)
        comment = self._rule_comment(path)
        second = prefix in ("/", "/System", "/System/Volumes", DATA) and _has_firmlink(path)
        if self._spellings.is_plain(path, prefix):
            yield Filter("subpath", self._native_path(path), comment)
            if second:
                yield Filter("subpath", DATA + self._native_path(path), "its other name")
            return
        data = f"({escape_regex(DATA)})?" if second else ""
        yield Filter("regex", f"^{data}{self._filter_below(path, prefix)}(/|$)", comment)

    def _allowed_ancestor(self, action: Action, path: str) -> str:
        """The deepest place above a path that is allowed by a rule: other spellings of it are not."""
        granted_paths = self._granted_paths[action]
        return next((each for each in ancestors(path) if each in granted_paths), "/")

    def _filter_below(self, path: str, prefix: str) -> str:
        return self._spellings.below(self._native_path(path), self._native_path(prefix))

    def _protect(self, names: tuple[str, ...], roots: Sequence[str]) -> None:
        if not names:
            return
        number = len(self._out.names)
        self._out.names.append("|".join(self._spellings.below(f"/{name}", "/")[1:] for name in names))
        self._out.folders.append(
            "|".join(self._spellings.below(f"/{each}", "/")[1:] for each in _relative_directories(names))
        )
        filters = []
        for root in roots:
            self._restricted.setdefault(below(root, names[0]))
            pattern = (
                self._filter_below(root, self._allowed_ancestor("write", below(root, "x")))
                if root != "/"
                else ""
            )
            filters.append(Filter("names", pattern, "", number))
        for chunk in _split_filters(filters):
            joined = "|".join(each.text for each in chunk)
            one = Filter("names", joined, "", number)
            self._out.statements.append(SeatbeltStatement("write", False, (one,)))
            if self._out.folders[number]:
                self._out.pinned.append(Filter("folders", joined, "", number))

    def _pin_restricted(self) -> None:
        """Pin the names of restricted paths in writable directories, and of the directories above them."""
        seen: dict[str, None] = {}
        for path in self._restricted:
            for each in ancestors(path):
                if each in seen:
                    break
                if self._is_allowed("write", each):
                    seen[each] = None
        for link in self._policy.filesystem.links:
            for each in (link.path, *ancestors(link.path)):
                if self._is_allowed("write", each):
                    seen[each] = None
        for path in sorted(seen):
            granted = path in self._granted_paths["write"] and self._policy.facts.kind(path) is None
            (self._out.kept if granted else self._out.pinned).append(self._exact_filter(path))

    def _exact_filter(self, path: str) -> Filter:
        prefix = path if path in self._granted_paths["write"] else self._allowed_ancestor("write", path)
        if self._spellings.is_plain(path, prefix):
            return Filter("literal", self._native_path(path))
        return Filter("regex", f"^{self._filter_below(path, prefix)}$")

    def _allow_traversal(self) -> None:
        """Traversed paths: directories above readable paths, and links."""
        found: dict[str, None] = {"/etc": None, "/tmp": None, "/var": None}  # noqa: S108 - links' names
        for path in sorted(self._granted_paths["read"] | self._granted_paths["write"]):
            found.update(dict.fromkeys(self._native_path(each) for each in ancestors(path)))
        for rule in (*self._policy.filesystem.rules, *self._policy.filesystem.startup):
            for link in rule.through:
                found.update(dict.fromkeys((link, *ancestors(link))))
        self._out.seen.extend(sorted(found))

    def _deciding_rules(self, path: str) -> tuple[PathRule, ...]:
        """The policy's rules for a path, looked up once for each."""
        if path not in self._known:
            self._known[path] = self._tree.deciding(path)
        return self._known[path]

    def _is_allowed(self, action: Action, path: str) -> bool:
        rules = self._deciding_rules(path)
        return bool(rules) and (rules[0].readable if action == "read" else rules[0].writable)

    def _fold_names(self, path: str) -> str:
        return "/".join(map(self._key, path.split("/")))

    def _rule_comment(self, path: str) -> str:
        rule = next(iter(self._deciding_rules(path)), None)
        return f"{rule.why or rule.written} ({rule.source})" if rule else ""

    def _native_path(self, path: str) -> str:
        return native(path, self._policy)


def native(path: str, policy: ResolvedPolicy) -> str:
    """A canonical path as macOS' kernel has it: where the facts are those of a Linux host, `/tmp` moves."""
    if policy.facts.os == "darwin" or path == "/":
        return path
    first = f"/{components(path)[0]}"
    moved = DARWIN_LINKS.get(first, first)
    return path if moved.startswith("/") else f"/{moved}{path[len(first) :]}"


def _by_folder(names: Iterable[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The directories on the way to names, each with the names in it."""
    found: dict[str, list[str]] = {}
    for name in names:
        for folder in _relative_directories([name]):
            found.setdefault(folder, []).append(name)
    return tuple((folder, tuple(inside)) for folder, inside in found.items())


def _relative_directories(names: Iterable[str]) -> list[str]:
    """The relative directories on the way to relative names."""
    found: dict[str, None] = {}
    for name in names:
        parts = name.split("/")
        found.update(dict.fromkeys("/".join(parts[:count]) for count in range(1, len(parts))))
    return list(found)


def _split_filters(filters: Sequence[Filter]) -> Iterator[tuple[Filter, ...]]:
    """Filters in as many rules as their length asks for."""
    chunk: list[Filter] = []
    size = 0
    for each in filters:
        if chunk and size + len(each.text) > MAX_PATTERN:
            yield tuple(chunk)
            chunk, size = [], 0
        chunk.append(each)
        size += len(each.text)
    if chunk:
        yield tuple(chunk)


def _has_firmlink(path: str) -> bool:
    return any(is_inside(path, each) for each in FIRMLINKS)
