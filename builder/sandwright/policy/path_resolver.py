"""Puts a policy's paths onto a host: variables replaced, links resolved, each rule where it belongs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandwright.policy import git_protection, nested, spelling
from sandwright.policy.engines import SOCKETS
from sandwright.policy.facts import HostFacts
from sandwright.policy.layers import MergedSettings
from sandwright.policy.names import PathKind
from sandwright.policy.paths import below, canonical_with_links, follow, is_inside, same_name
from sandwright.policy.provenance import BUILT_IN, Faults, PolicySource, Sourced
from sandwright.policy.rules import Origin, PathRule, PathRules, Protection
from sandwright.policy.startup import PATHS
from sandwright.policy.tree import PathTree

CLOUD = {
    "~/.aws": "AWS",
    "~/.config/gcloud": "Google Cloud",
    "~/.azure": "Azure",
}
"""The cloud tool by the path of its credentials."""

GOOGLE_KEY = "GOOGLE_APPLICATION_CREDENTIALS"
"""The variable that names a Google service account's key file."""

_LISTED: Mapping[str, PathKind] = {
    "filesystem.read": "read",
    "filesystem.write": "write",
    "filesystem.readonly": "readonly",
    "filesystem.deny": "deny",
}
_OWN: Sequence[tuple[str, PathKind, str]] = (
    ("/dev", "read", "the sandbox's own devices"),
    ("/dev/full", "write", "the sandbox's own devices"),
    ("/dev/null", "write", "the sandbox's own devices"),
    ("/dev/ptmx", "write", "the sandbox's own terminals"),
    ("/dev/pts", "write", "the sandbox's own terminals"),
    ("/dev/shm", "write", "the sandbox's own shared memory"),  # noqa: S108 - a name, nothing is created
    ("/dev/tty", "write", "the sandbox's own terminal"),
    ("/dev/zero", "write", "the sandbox's own devices"),
    ("/proc", "read", "the sandbox's own processes"),
)
_DEVICES = frozenset(f"/dev/{name}" for name in ("full", "null", "ptmx", "pts", "tty", "zero"))


@dataclass(frozen=True)
class Unprotected:
    """An exception: a canonical path at which rules of the layers below are lifted.

    `written` is how the policy spells it, `through` are the links on the way.
    """

    path: str
    reason: str
    source: PolicySource
    written: str = ""
    through: tuple[str, ...] = ()


class PathResolver:
    """Resolves a policy's paths to canonical ones, and gathers faults of the spelling."""

    def __init__(self, facts: HostFacts, faults: Faults, *, secrets: frozenset[str] = frozenset()) -> None:
        """`secrets` are variables of the environment that hold secrets: no path may use them."""
        self.facts = facts
        self._faults = faults
        self._values = {name: value for name, value in facts.variables.items() if name not in secrets}
        self._secrets = secrets

    def canonical_path(
        self, text: Sourced[str], *, lenient: bool = False
    ) -> tuple[str, tuple[str, ...]] | None:
        """The canonical path of a spelled one and the links on the way; None, with a fault, for a bad one.

        `lenient` takes a path whose links form a loop as it is spelled: the path is not reachable.
        """
        try:
            used = spelling.environment_names(text.value) & self._secrets
            if used:
                raise ValueError(f"{', '.join(sorted(used))} holds a secret of a shim; no path may show it")
            path = spelling.expand_path(text.value, self._values)
        except ValueError as error:
            self._faults.add(text.source, str(error))
            return None
        try:
            target, links = canonical_with_links(path, self.facts) if lenient else self._follow_links(path)
        except ValueError as error:
            self._faults.add(text.source, str(error))
            return None
        if spelling.has_undecodable_bytes(target):
            self._faults.add(text.source, f"leads to {target!r}, which is not valid UTF-8")
            return None
        return target, links

    def _follow_links(self, path: str) -> tuple[str, tuple[str, ...]]:
        target, links = follow(path, self.facts)
        return target, tuple(where for where, _ in links)

    def rule(
        self, text: Sourced[str], kind: PathKind, origin: Origin = "listed", why: str = ""
    ) -> PathRule | None:
        """The rule that a spelled path makes; None, with a fault, when it can't be placed."""
        target = self.canonical_path(text, lenient=kind == "deny" or text.source == BUILT_IN)
        if target is None:
            return None
        return PathRule(target[0], kind, origin, text.source, text.value, why, target[1])

    def listed(self, settings: MergedSettings) -> Iterator[PathRule]:
        """The rules that a policy lists. `/` as a writable path is a fault."""
        for name, kind in _LISTED.items():
            for text in self._everywhere(settings.items(name), kind):
                rule = self.rule(text, kind)
                if rule is not None and rule.path == "/" and rule.writable:
                    self._faults.add(text.source, "the whole host cannot be writable; name directories")
                elif rule is not None:
                    yield rule

    def _everywhere(self, texts: Iterable[Sourced[str]], kind: PathKind) -> Iterator[Sourced[str]]:
        """The paths; those of restrictions also in the account's home, if HOME is another."""
        for text in texts:
            yield text
            if kind in ("deny", "readonly"):
                for other in spelling.in_home(text.value, self.facts.account_home):
                    yield Sourced(other, text.source)

    def engines(self) -> Iterator[PathRule]:
        """The sockets of container engines, and the one in DOCKER_HOST; each is denied."""
        paths = dict(SOCKETS)
        remote = self.facts.environment.get("DOCKER_HOST", "")
        if remote.startswith("unix:///"):
            paths[remote.removeprefix("unix://").replace("$", "$$")] = "DOCKER_HOST"
        found: dict[str, PathRule] = {}
        for rule in self._builtin_rules(paths, "deny", "engine"):
            found.setdefault(rule.path, rule)
        yield from found.values()

    def private_rules(self) -> Iterator[PathRule]:
        """The rules for the sandbox's private paths, which replace the host's."""
        if self.facts.os == "linux":
            for path, kind, why in _OWN:
                yield PathRule(path, kind, "own", BUILT_IN, path, why, private=True)
        else:
            for path in ("/dev/null", "/dev/zero", "/dev/tty", "/dev/ptmx"):
                yield PathRule(path, "write", "own", BUILT_IN, path, "devices that keep nothing")

    def startup(self) -> Iterator[PathRule]:
        """The rules for the files that a program reads at its start."""
        yield from self._builtin_rules(PATHS[self.facts.os], "read", "startup")

    def temporary(self, mode: Sourced[str]) -> PathRule | None:
        """The temporary directory."""
        rule = self.rule(Sourced("$TMP", mode.source), "write", "tmp", "the temporary directory")
        if rule is None or mode.value == "shared":
            return rule
        return PathRule(
            rule.path, "write", "own", mode.source, "$TMP", "a private temporary directory", private=True
        )

    def home(self, mode: Sourced[str]) -> PathRule | None:
        """The sandbox's own home directory; None where it has the user's."""
        rule = self.rule(Sourced("~", mode.source), "write", "home") if mode.value != "host" else None
        if rule is None:
            return None
        lifetime = "kept by the project" if mode.value == "private" else "empty in each run"
        why = f"a home directory of the sandbox, {lifetime}; the user's is not visible"
        return PathRule(rule.path, "write", "home", mode.source, "~", why, rule.through, private=True)

    def cloud(self, source: PolicySource) -> Iterator[PathRule]:
        """The cloud tools' credentials, to be read."""
        paths = dict(CLOUD)
        if self.facts.environment.get(GOOGLE_KEY):
            paths[f"${{{GOOGLE_KEY}}}"] = "Google Cloud"
        for path, why in paths.items():
            rule = self.rule(Sourced(path, source), "read", "cloud", why)
            if rule is not None:
                yield rule

    def without_cloud(self, source: PolicySource) -> Iterator[PathRule]:
        """The rules that deny cloud credentials: directories of these names, and variables' files."""
        for path, why in CLOUD.items():
            for text in self._everywhere([Sourced(path, source)], "deny"):
                rule = self.rule(text, "deny", "cloud", why)
                yield from [rule] if rule else []
        key = self.facts.environment.get(GOOGLE_KEY, "")
        if not key.startswith("/") or GOOGLE_KEY in self._secrets:
            return
        try:
            path, links = follow(spelling.expand_path(f"${{{GOOGLE_KEY}}}", self._values), self.facts)
        except ValueError:
            return  # nothing that could be opened by this name
        if self.facts.kind(path) == "file" and not spelling.has_undecodable_bytes(path):
            through = tuple(where for where, _ in links)
            yield PathRule(path, "deny", "cloud", source, f"${{{GOOGLE_KEY}}}", "Google Cloud", through)

    def unprotected(self, settings: MergedSettings) -> Iterator[Unprotected]:
        """The exceptions that a policy makes."""
        for item in settings.items("filesystem.unprotect"):
            target = self.canonical_path(Sourced(item.value.path, item.source))
            if target is not None:
                yield Unprotected(target[0], item.value.reason, item.source, item.value.path, target[1])

    def _builtin_rules(self, paths: Mapping[str, str], kind: PathKind, origin: Origin) -> Iterator[PathRule]:
        for path, why in paths.items():
            rule = self.rule(Sourced(path, BUILT_IN), kind, origin, why)
            if rule is not None:
                yield rule


def lost_writes(listed: Iterable[PathRule], private: Iterable[PathRule], faults: Faults) -> None:
    """Add a fault for each writable path that the sandbox replaces by a tmpfs.

    `private` are the rules for the sandbox's own directories. Devices keep no data, here or there.
    """
    private_paths = {each.path: each for each in private if each.private and each.path not in _DEVICES}
    for rule in listed:
        if rule.writable and rule.path in private_paths:
            shared = ", or set filesystem.tmp: shared" if private_paths[rule.path].written == "$TMP" else ""
            text = f"the sandbox has a private {rule.path}, and files written there are lost: leave it out"
            if private_paths[rule.path].origin == "home":
                text = f"the sandbox has a separate home directory at {rule.path}: leave it out"
            faults.add(rule.source, text + shared)


def without_private(rules: Sequence[PathRule], home: PathRule | None, facts: HostFacts) -> list[PathRule]:
    """The rules without those that take something away from a private home: it shows no file of the host."""
    if home is None:
        return [*rules]
    grants = PathRules(
        [home, *(each for each in rules if each.kind in ("read", "write"))], key=same_name(facts)
    )

    def is_void(rule: PathRule) -> bool:
        deciding = grants.deciding(rule.path)
        return rule.kind in ("deny", "readonly") and bool(deciding) and deciding[0] is home

    return [home, *(rule for rule in rules if not is_void(rule))]


def with_exceptions(
    rules: Iterable[PathRule], exceptions: Sequence[Unprotected], faults: Faults
) -> Iterator[PathRule]:
    """The rules that stay: those at an exception's path go, when they are of a layer below it.

    The floor's stay, and so do the sockets of engines; asking for one of these is a fault.
    """
    by_path = {each.path: each for each in exceptions}
    for rule in rules:
        exception = by_path.get(rule.path)
        if exception is None or rule.kind not in ("deny", "readonly"):
            yield rule
        elif rule.origin == "engine":
            faults.add(exception.source, f"{rule.path} is a socket of {rule.why}, always denied")
            yield rule
        elif rule.source.layer == "floor":
            faults.add(exception.source, f"{rule.path} is denied by the floor ({rule.source})")
            yield rule
        elif rule.source.rank >= exception.source.rank:
            yield rule


def engine_faults(
    paths: Iterable[tuple[str, PolicySource]], engines: Sequence[PathRule], facts: HostFacts, faults: Faults
) -> None:
    """A fault for each path that is, or is inside, the socket of a container engine."""
    tree: PathTree[PathRule] = PathTree(same_name(facts))
    for engine in engines:
        tree.add(engine.path, engine)
    for path, source in paths:
        found = next((rules[0] for _, rules in tree.prefixes(path)), None)
        if found:
            faults.add(source, f"{path} leads to the socket of {found.why}, which is always denied")


def protections(
    settings: MergedSettings,
    rules: Sequence[PathRule],
    facts: HostFacts,
    exceptions: Sequence[Unprotected],
    faults: Faults,
    *,
    compared: bool = False,
) -> tuple[Protection, ...]:
    """The protected names: below each writable path, and those of Git below each of its directories.

    Not below directories that sandboxes keep, because no program of the host uses these.

    Where names of Git's are protected, no repository can be made of the project itself either. An exception
    lifts the protections of lower layers. For the floor's protections, and for the policy itself, it is a
    fault.
    """
    persistent = [follow(facts.variables[name], facts)[0] for name in ("STATE", "CACHE")]
    listed = (rule.path for rule in rules if rule.writable and rule.origin == "listed")
    writable = dict.fromkeys(path for path in listed if not any(is_inside(path, each) for each in persistent))
    roots = facts.with_aliases([*writable, *(follow(p, facts)[0] for p in (facts.project, *facts.homes))])
    project = follow(facts.project, facts)[0]
    by_layer: dict[int, list[Sourced[str]]] = {}
    for name in settings.items("filesystem.protect"):
        by_layer.setdefault(name.source.rank, []).append(name)
    found: list[Protection] = []
    for rank, names in by_layer.items():
        later = frozenset(each.path for each in exceptions if each.source.rank > rank)
        firm = names[0].source.layer in ("built-in", "floor")
        excepted = frozenset() if firm else later
        remaining = names if firm else [*_without_configuration(names, settings)]
        made = [
            Protection(tuple(remaining), roots, excepted),
            Protection(_git_relative_names(remaining), facts.git_directories, excepted),
            git_protection.bare_protection(
                _git_relative_names(remaining),
                project,
                facts,
                excepted=excepted,
                rules=rules,
                compared=compared,
                placeholders=settings.value("filesystem.placeholders") is not False,
            ),
            *git_protection.git_protections(_git_relative_names(remaining), facts, excepted),
        ]
        if firm:
            _refuse_exceptions(made, exceptions, facts, faults)
        found += [each for each in made if each.names and each.roots]
    lifted = [(each.path, each.source.rank) for each in exceptions]
    return (*found, *nested.nested_protections(settings, facts.autorun, lifted))


def _without_configuration(names: Iterable[Sourced[str]], settings: MergedSettings) -> Iterator[Sourced[str]]:
    """The names without those of Git's configuration, where a layer above theirs grants `config`."""
    granted = [each.source.rank for each in settings.items("filesystem.git") if each.value == "config"]
    for name in names:
        if name.value not in git_protection.CONFIGURATION or max(granted, default=-1) <= name.source.rank:
            yield name


def _git_relative_names(names: Iterable[Sourced[str]]) -> tuple[Sourced[str], ...]:
    """The names that lie in a directory of Git's, as seen from it."""
    inside = (name for name in names if name.value.startswith(".git/"))
    return tuple(Sourced(name.value.removeprefix(".git/"), name.source) for name in inside)


def _refuse_exceptions(
    firm: Sequence[Protection], exceptions: Sequence[Unprotected], facts: HostFacts, faults: Faults
) -> None:
    everything = PathRule("/", "write", "listed", BUILT_IN)
    guard = PathRules([everything], protections=firm, key=same_name(facts))
    for exception in exceptions:
        rule = guard.deciding(exception.path)[0]
        if rule.path == exception.path and rule.origin == "protected":
            who = f"by the floor ({rule.source})" if rule.source.layer == "floor" else "always"
            faults.add(exception.source, f"{exception.path} is protected {who}")


def protected_rules(protections: Iterable[Protection], facts: HostFacts) -> Iterator[PathRule]:
    """The protected paths that exist, and those that links lead to, as rules: links are resolved.

    A `.git` that is a file is one too: a program that writes it chooses which hooks run.
    """
    holding = {path.rpartition("/")[0] or "/" for path in facts.entries}
    for protection in protections:
        git = next((name for name in protection.names if name.value.startswith(".git/")), None)
        for root in protection.roots:
            kind = facts.kind(root)
            if kind is None or (root not in holding and kind != "symlink"):
                continue
            if (
                git
                and facts.kind(below(root, ".git")) == "file"
                and below(root, ".git") not in protection.exceptions
            ):
                yield PathRule(below(root, ".git"), "readonly", "protected", git.source, ".git")
            for name in protection.names:
                spelled = below(root, name.value)
                path, through = canonical_with_links(spelled, facts)
                lifted_here = not protection.exceptions.isdisjoint((path, spelled))
                if not lifted_here and (through or facts.kind(path) is not None):
                    yield PathRule(path, "readonly", "protected", name.source, name.value, "", through)
