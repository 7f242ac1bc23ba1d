"""A policy on one host, as values: every path canonical, every text with its meaning."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from sandwright.errors import UsageError
from sandwright.policy import spelling, values
from sandwright.policy.facts import HostFacts
from sandwright.policy.hosts import HostIndex, HostPattern, ListedHost, listed_pattern
from sandwright.policy.http_credentials import HttpCredential
from sandwright.policy.http_rules import HttpHost
from sandwright.policy.layers import MergedSettings
from sandwright.policy.links import ReplaceableLink
from sandwright.policy.names import (
    CaSource,
    CloudMode,
    GvisorEngine,
    HomeMode,
    MappingMode,
    NetworkMode,
    TmpMode,
    WorkspaceMode,
)
from sandwright.policy.path_resolver import Unprotected
from sandwright.policy.paths import below, canonical, is_inside
from sandwright.policy.phrasing import quoted
from sandwright.policy.provenance import BUILT_IN, PolicySource, Sourced
from sandwright.policy.rules import PathRule, PathRules, Protection
from sandwright.policy.values import ShimCommand


@dataclass(frozen=True)
class Filesystem:
    """The access to the host's files.

    `rules` are those that hold, parents before children. `protected` are the names below writable paths that
    exist; where they would be writable they are among `rules` too. `protections` say which names are
    protected wherever they appear. `links` are those that a restriction leads through and the sandbox can
    replace. `startup` can be read where no rule says anything. `placeholders`: missing protected names are
    occupied during a run. `tmp` is the temporary directory's mode, and `tmp_path` where the sandbox sees it.
    `home` is the home directory's mode, and `home_source` the directory of the host that is bound there with
    `private`, else empty.
    """

    rules: tuple[PathRule, ...]
    startup: tuple[PathRule, ...]
    protected: tuple[PathRule, ...]
    protections: tuple[Protection, ...]
    unprotected: tuple[Unprotected, ...]
    links: tuple[ReplaceableLink, ...]
    placeholders: bool
    home: HomeMode
    home_source: str
    tmp: TmpMode
    tmp_path: str
    tree: PathRules = field(repr=False, compare=False)

    @property
    def reads_all(self) -> bool:
        """Whether the root of the host is readable, and so every path that no rule denies."""
        return self.tree.allows("read", "/")

    def is_host_reopening(self, rule: PathRule) -> bool:
        """Whether a preset that grants the whole host reopens paths that it denies; not in an image."""
        return rule.kind == "read" and rule.source.layer.startswith("preset ") and self.reads_all

    def over_image(self, key: Callable[[str], str]) -> PathRules:
        """The rules where the root is an image's: `/` shows no file of the host there, only listed paths do.

        `key` gives equal text for names that are the same file.
        """
        rules = (each for each in self.rules if each.path != "/" and not self.is_host_reopening(each))
        return PathRules(rules, protections=self.protections, startup=self.startup, key=key)

    def ruled_paths(self) -> Iterator[str]:
        """The canonical paths that rules are about, protected names that don't exist among them."""
        yield from (rule.path for rule in (*self.rules, *self.startup))
        for protection in self.protections:
            yield from (below(root, name.value) for root in protection.roots for name in protection.names)


@dataclass(frozen=True)
class Network:
    """The allowed connections. `unix_sockets` are canonical paths; `own_sockets` is the policy's setting."""

    mode: NetworkMode
    allow: tuple[HostPattern, ...]
    http: tuple[HttpHost, ...]
    unix_sockets: tuple[str, ...]
    own_sockets: bool
    localhost: tuple[int, ...]
    expose: tuple[int, ...]
    ca: CaSource

    @functools.cached_property
    def hosts(self) -> HostIndex:
        """The items of `allow`, by host."""
        return HostIndex(self.allow)

    def opened(self, host: str, port: int) -> HttpHost | None:
        """The host of `network.http` with this canonical name and port."""
        return next((each for each in self.http if (each.host, each.port) == (host, port)), None)

    @property
    def has_own_sockets(self) -> bool:
        """Whether programs can create Unix sockets on Linux: in a network of their own."""
        return self.own_sockets and self.mode != "host"

    @property
    def makes_sockets(self) -> bool:
        """Whether programs inside can make Unix sockets other than pairs on Linux."""
        return self.has_own_sockets or bool(self.unix_sockets)


@dataclass(frozen=True)
class Process:
    """`seccomp` is the name of a profile, or the canonical path of a file."""

    sandbox_root: bool
    seccomp: str


@dataclass(frozen=True)
class EnvironmentRules:
    """The variables a program starts with: values that are set, and patterns of those that are passed.

    `secret` are names that never pass.
    """

    passed: tuple[str, ...]
    set: Mapping[str, str]
    secret: frozenset[str]

    def passes(self, name: str) -> bool:
        """Whether a variable of the host reaches the program: one that is set does not, its value is new."""
        return (
            name not in self.set
            and name not in self.secret
            and not values.loads_code(name)
            and any(values.pattern_covers(pattern, name) for pattern in self.passed)
        )


@dataclass(frozen=True)
class Shim:
    """A program on the host's side. `secrets` maps its variables to the host's that hold the secrets."""

    secrets: Mapping[str, str]
    allow: tuple[ShimCommand, ...]


@dataclass(frozen=True)
class Credentials:
    """Access to accounts, shims by the name of the program, and keys that sign, as the policy spells them."""

    cloud: CloudMode
    shims: Mapping[str, Shim]
    http: tuple[HttpCredential, ...] = ()
    signing: tuple[str, ...] = ()

    @property
    def needs_bridge(self) -> bool:
        """Whether a program of the host's works for the sandbox."""
        return bool(self.shims or self.signing)


@dataclass(frozen=True)
class Resources:
    """Limits of a run, None for none: bytes, processors, processes, open files of each, seconds."""

    memory: int | None
    cpus: float | None
    pids: int | None
    files: int | None
    time: int | None


@dataclass(frozen=True)
class AcceptedGap:
    """A feature that a method can't enforce, accepted."""

    feature: str
    method: str
    reason: str
    source: PolicySource


@dataclass(frozen=True)
class ResolvedPolicy:
    """A policy on one host.

    `methods` are those to try in order: one, when the policy names its method. `reason` is why nothing is
    enforced, with noop. `mcp_tools` are patterns of tools, None where the command is no server of MCP.
    `mapping` is `user.mapping`. `settings` holds the values of the layers, each with its place.
    """

    methods: tuple[str, ...]
    reason: str
    workspace: WorkspaceMode
    filesystem: Filesystem
    network: Network
    process: Process
    macos: tuple[str, ...]
    mcp_tools: tuple[str, ...] | None
    environment: EnvironmentRules
    credentials: Credentials
    mapping: MappingMode
    resources: Resources
    image: str
    gvisor_engine: GvisorEngine
    accept_gaps: tuple[AcceptedGap, ...]
    facts: HostFacts
    settings: MergedSettings = field(repr=False)

    def listed_host(self, host: str, port: int) -> Sourced[str | ListedHost] | None:
        """The first item of `network.allow` that matches a canonical host and a port."""
        found = self._listed_hosts.first(host, port)
        return self.settings.items("network.allow")[found[0]] if found else None

    def listed_at(self, field: str, value: str | int) -> PolicySource:
        """The first entry with a port or a canonical path in a list of `network`; else the list itself."""
        return self._listed_at.get((field, value)) or self.source(field)

    @functools.cached_property
    def _listed_at(self) -> Mapping[tuple[str, str | int], PolicySource]:
        found: dict[tuple[str, str | int], PolicySource] = {}
        for name in ("network.unix_sockets", "network.localhost", "network.expose"):
            for item in self.settings.items(name):
                value = item.value if isinstance(item.value, int) else self.canonical(item.value)
                found.setdefault((name, value), item.source)
        return found

    def passing(self, name: str) -> Sourced[str] | None:
        """The first item of `environment.pass` that covers a variable's name."""
        found = [
            self._passed_variables[each] for each in values.covering_patterns(self._passed_variables, name)
        ]
        return min(found, key=lambda each: each[0])[1] if found else None

    @functools.cached_property
    def _passed_variables(self) -> Mapping[str, tuple[int, Sourced[str]]]:
        items = enumerate(self.settings.items("environment.pass"))
        return {item.value: (position, item) for position, item in reversed([*items])}

    @functools.cached_property
    def _listed_hosts(self) -> HostIndex:
        return HostIndex(listed_pattern(item.value) for item in self.settings.items("network.allow"))

    def canonical(self, path: str) -> str:
        """The canonical form of a path in a question.

        A path that begins with `~` or `$` is spelled as a policy spells it; any other is taken as it is, a
        relative one below the facts' `cwd`. Raise UsageError for a path that no file can have.
        """
        try:
            return canonical(self.spelled(path), self.facts.closed())
        except ValueError as error:
            raise UsageError(f"{quoted(path)}: {error}") from None

    def spelled(self, path: str) -> str:
        """The absolute path in a question, links not resolved. Raise like `canonical`."""
        try:
            if path.startswith(("~", "$")):
                path = spelling.expand_path(path, self.facts.variables)
            if not path or "\0" in path:
                raise ValueError("is no path")
        except ValueError as error:
            raise UsageError(f"{quoted(path)}: {error}") from None
        return path if path.startswith("/") else f"{self.facts.variables['CWD']}/{path}"

    def is_path_readable(self, path: str) -> bool:
        """Whether the sandbox may read a path. It is taken like `canonical` takes it."""
        return self.filesystem.tree.allows("read", self.canonical(path))

    def is_path_writable(self, path: str) -> bool:
        """Whether the sandbox may write a path. It is taken like `canonical` takes it."""
        return self.filesystem.tree.allows("write", self.canonical(path))

    def deciding(self, path: str) -> tuple[PathRule, ...]:
        """The rules for a path, the deciding one first; none when nothing lets it be read."""
        return self.filesystem.tree.deciding(self.canonical(path))

    def denies_image(self, path: str) -> bool:
        """Whether a denied canonical path is also denied in the root of an image.

        Paths that a preset denies are the host's, and so are homes; root's home is also one of images.
        """
        rules = self.filesystem.tree.deciding(path)
        if not rules or rules[0].kind != "deny" or rules[0].origin != "listed":
            return False
        if rules[0].source.layer.startswith("preset "):
            return False
        home = self.canonical(self.facts.home)
        return home == "/root" or not is_inside(path, home)

    def grants_git(self, name: str) -> bool:
        """Whether `filesystem.git` has a grant."""
        return any(each.value == name for each in self.settings.items("filesystem.git"))

    def source(self, name: str) -> PolicySource:
        """The position of a field's value (`network.mode`), or of a list of grants."""
        value = self.settings.values.get(name)
        return value.source if value else self.settings.given.get(name, BUILT_IN)
