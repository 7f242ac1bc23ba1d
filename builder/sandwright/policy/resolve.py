"""Resolves merged settings with the facts of one host into a `ResolvedPolicy`, or reports every fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sandwright.errors import UsageError
from sandwright.policy import git_protection, git_worktree, hosts, spelling, values
from sandwright.policy.engines import PORTS
from sandwright.policy.facts import HostFacts
from sandwright.policy.http_credentials import HttpCredential
from sandwright.policy.layers import MergedSettings
from sandwright.policy.links import grant_faults, replaceable_links, unreviewed_faults
from sandwright.policy.mounted import alias_rules, refuse_unnameable
from sandwright.policy.path_limits import check_paths, check_sockets
from sandwright.policy.path_resolver import (
    PathResolver,
    engine_faults,
    lost_writes,
    protected_rules,
    protections,
    with_exceptions,
    without_private,
)
from sandwright.policy.paths import (
    ancestors,
    below,
    canonical,
    canonical_with_links,
    depth,
    same_name,
)
from sandwright.policy.provenance import BUILT_IN, Faults, Sourced
from sandwright.policy.reserved import reserved_faults, reserved_rules, rules_in_force
from sandwright.policy.resolve_http import http_secret_names, resolve_credentials, resolve_http
from sandwright.policy.resolved import (
    AcceptedGap,
    Credentials,
    EnvironmentRules,
    Filesystem,
    Network,
    Process,
    ResolvedPolicy,
    Resources,
    Shim,
)
from sandwright.policy.rules import PathRule, PathRules
from sandwright.policy.secretnames import secret_values
from sandwright.policy.values import UNLIMITED

_SYSTEM_DIRECTORIES = frozenset({
    "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys",
    "/usr", "/var", "/private", "/private/etc", "/private/tmp", "/private/var", "/Applications", "/Library",
    "/System", "/Users", "/Volumes",
})  # fmt: skip
"""Directories of the system, which can't be projects."""


def resolve(
    settings: MergedSettings,
    facts: HostFacts,
    *,
    floor: MergedSettings | None = None,
    files: Sequence[str] = (),
    compared: bool = False,
) -> ResolvedPolicy:
    """Put merged settings on a host. `files` are the policy's own, which stay read-only inside.

    So does the seccomp profile that it takes from a file. sandwright's own paths can't be granted. Nothing
    runs under settings that are `compared` with others.

    Raise UsageError for a project that is a home or system directory, DocumentError for paths that are
    invalid on this host, and for attempts to loosen the floor.
    """
    _check_project(facts)
    faults = Faults(secrets=secret_values(facts.environment))
    secrets = _secret_sources(settings) | http_secret_names(settings)
    resolver = PathResolver(facts, faults, secrets=secrets)
    process, taken = _process(settings, resolver)
    filesystem = _filesystem(settings, resolver, faults, [*files, *taken], compared=compared)
    network = _resolve_network(settings, resolver, filesystem.tree, faults)
    if floor is not None:
        check_paths(floor, filesystem, resolver, faults)
        check_sockets(floor, settings, resolver, faults)
    environment = _resolve_environment(settings, facts, secrets)
    credentials = resolve_credentials(settings, network.http, faults)
    faults.raise_any()
    return ResolvedPolicy(
        methods=_method_choice(settings),
        reason=settings.value("reason") or "",
        workspace=settings.value("workspace") or "live",
        filesystem=filesystem,
        network=network,
        process=process,
        macos=tuple(dict.fromkeys(item.value for item in settings.items("macos"))),
        mcp_tools=_mcp_tools(settings),
        environment=environment,
        credentials=_credentials(settings, credentials),
        mapping=settings.value("user.mapping") or "auto",
        resources=_resources(settings, facts),
        image=settings.value("image") or "debian",
        gvisor_engine=settings.value("gvisor.engine") or "none",
        accept_gaps=tuple(_accepted_gaps(settings)),
        facts=facts,
        settings=settings,
    )


def _check_project(facts: HostFacts) -> None:
    """A project is neither the root, a home, a directory of homes, nor a directory of the system."""
    project = canonical(facts.project, facts)
    home = canonical(facts.home, facts)
    if project == home:
        raise UsageError(f"the project {facts.project} is the home directory; choose a directory in it")
    if (
        project in ("/", canonical("/tmp", facts))  # noqa: S108 - a name only
        or project in ancestors(home)
        or project in _SYSTEM_DIRECTORIES
    ):
        raise UsageError(f"the project {facts.project} is a directory of the system; choose another one")


def _method_choice(settings: MergedSettings) -> tuple[str, ...]:
    method = settings.value("method")
    return (method,) if method else tuple(dict.fromkeys(settings.value("methods") or ()))


def _filesystem(
    settings: MergedSettings,
    resolver: PathResolver,
    faults: Faults,
    files: Sequence[str],
    *,
    compared: bool,
) -> Filesystem:
    facts = resolver.facts
    tmp = settings.values.get("filesystem.tmp") or Sourced("private", BUILT_IN)
    engines = tuple(resolver.engines())
    listed = list(resolver.listed(settings))
    grants = ((rule.path, rule.source) for rule in listed if rule.kind != "deny")
    engine_faults(grants, engines, facts, faults)
    unprotected = tuple(resolver.unprotected(settings))
    home = settings.values.get("filesystem.home") or Sourced("host", BUILT_IN)
    rules = [*with_exceptions(_with_cloud(listed, settings, resolver), unprotected, faults)]
    rules += _worktree_rules(settings, rules, facts, faults)
    rules += [*with_exceptions(engines, unprotected, faults), *resolver.private_rules()]
    temporary = resolver.temporary(tmp)
    rules += [temporary] if temporary else []
    everywhere, own_home = [*rules], resolver.home(home)
    rules = without_private(rules, own_home, facts)
    lost_writes(listed, [rule for rule in rules if rule.origin in ("own", "home")], faults)
    names = protections(settings, rules, facts, unprotected, faults, compared=compared)
    startup = tuple(resolver.startup())
    key = same_name(facts)
    before = PathRules(rules, startup=startup, key=key)
    protected = tuple(protected_rules(names, facts))
    policy_files = tuple(
        _own_files(files, facts.closed())
    )  # this checkout may be elsewhere than the recorded one
    closed = tuple(reserved_rules(facts))
    rules += [rule for rule in (*protected, *policy_files) if before.changes_host(rule.path)]
    rules += rules_in_force(closed, before, facts)
    everywhere += [replace(own_home, kind="deny", private=False)] if own_home else []
    restricted = dict.fromkeys([*everywhere, *rules, *protected, *policy_files])
    rules += alias_rules(restricted, before, listed, facts)  # other mounts show the user's home
    refuse_unnameable(() if compared else rules)
    rules.sort(key=lambda rule: (depth(rule.path), rule.path, rule.strength))
    tree = PathRules(rules, protections=names, startup=startup, key=key)
    if any(name.value.startswith(".git/") for each in names for name in each.names):
        git_protection.check_git_protection(facts, before, tree)
    granted = [
        rule for rule in rules if rule.kind in ("read", "write") and rule.origin in ("listed", "cloud", "git")
    ]
    grant_faults([*granted, *unprotected], tree, faults)
    readonly = [rule for rule in rules if rule.kind == "readonly" and rule.origin == "listed"]
    unreviewed_faults([*granted, *readonly, *unprotected], tree, _unreviewed_directories(facts), faults)
    reserved_faults(granted, closed, faults)
    return Filesystem(
        rules=tuple(rules),
        startup=startup,
        protected=tuple(rule for rule in protected if facts.kind(rule.path) is not None),
        protections=names,
        unprotected=unprotected,
        links=tuple(replaceable_links((*rules, *protected, *policy_files, *closed), tree)),
        placeholders=settings.value("filesystem.placeholders") is not False,
        home=home.value,
        home_source=_home_source(home, facts, faults),
        tmp=tmp.value,
        tmp_path=temporary.path if temporary else facts.tmp,
        tree=tree,
    )


def _home_source(mode: Sourced[str], facts: HostFacts, faults: Faults) -> str:
    """The directory that a private home shows. A link in its place is a fault."""
    if mode.value != "private":
        return ""
    path, links = canonical_with_links(facts.private_home, facts)
    above, _, name = facts.private_home.rpartition("/")
    if below(canonical(above, facts), name) in links:
        faults.add(mode.source, f"{facts.private_home} is a link; remove it")
    return path


def _unreviewed_directories(facts: HostFacts) -> list[str]:
    """The directories in which others may have made links: the project, and sandboxes' persistent ones."""
    named = (facts.project, facts.variables.get("CACHE"), facts.variables.get("STATE"))
    return [canonical(path, facts) for path in named if path]


def _with_cloud(
    listed: Sequence[PathRule], settings: MergedSettings, resolver: PathResolver
) -> Iterator[PathRule]:
    """The rules, and those for the cloud tools' credentials.

    With `cloud: readonly` they can be read, in place of the presets' denials; else they are denied, except
    for paths that a policy lists exactly.
    """
    mode = settings.values.get("credentials.cloud")
    if mode is None or mode.value == "none":
        explicit = {
            rule.path for rule in listed if rule.kind == "deny" or not rule.source.layer.startswith("preset ")
        }
        yield from listed
        source = mode.source if mode else BUILT_IN
        yield from (rule for rule in resolver.without_cloud(source) if rule.path not in explicit)
        return
    opened = tuple(resolver.cloud(mode.source))
    paths = {rule.path for rule in opened}
    for rule in listed:
        if not (rule.kind == "deny" and rule.path in paths and rule.source.layer.startswith("preset ")):
            yield rule
    yield from opened


def _worktree_rules(
    settings: MergedSettings, rules: Sequence[PathRule], facts: HostFacts, faults: Faults
) -> list[PathRule]:
    """The grants for a linked work tree's repository; none, with a fault, where a rule hides it."""
    found = [*git_worktree.rules(facts, settings.items("filesystem.git"), faults)]
    before = PathRules(rules, key=same_name(facts)).deciding(found[0].path) if found else ()
    if before and before[0].kind == "deny":
        faults.add(
            found[0].source, f"{found[0].path} is hidden: deny {before[0].written} ({before[0].source})"
        )
    return found


def _own_files(files: Sequence[str], facts: HostFacts) -> Iterator[PathRule]:
    """Rules that keep the policy's own files read-only."""
    for file in files:
        path, through = canonical_with_links(file, facts)
        yield PathRule(path, "readonly", "policy", BUILT_IN, file, "the policy itself", through)


def _resolve_network(
    settings: MergedSettings, resolver: PathResolver, tree: PathRules, faults: Faults
) -> Network:
    sockets: list[PathRule] = []
    for text in settings.items("network.unix_sockets"):
        rule = resolver.rule(text, "read")
        sockets += [rule] if rule else []
    grant_faults(sockets, tree, faults)
    unreviewed_faults(sockets, tree, _unreviewed_directories(resolver.facts), faults)
    reserved_faults(sockets, tuple(reserved_rules(resolver.facts)), faults)
    engine_faults(
        ((rule.path, rule.source) for rule in sockets), tuple(resolver.engines()), resolver.facts, faults
    )
    inward = {item.value for item in settings.items("network.localhost")}
    for item in settings.items("network.localhost"):
        if item.value in PORTS:
            faults.add(
                item.source, f"port {item.value} is that of {PORTS[item.value]}: engines are never reached"
            )
    for item in settings.items("network.expose"):
        if item.value in inward:
            faults.add(item.source, f"port {item.value} is in network.localhost too: it would lead to itself")
    return Network(
        mode=settings.value("network.mode") or "none",
        allow=tuple(
            dict.fromkeys(hosts.listed_pattern(item.value) for item in settings.items("network.allow"))
        ),
        http=resolve_http(settings, faults),
        unix_sockets=tuple(dict.fromkeys(rule.path for rule in sockets)),
        own_sockets=settings.value("network.own_sockets") is not False,
        localhost=tuple(dict.fromkeys(item.value for item in settings.items("network.localhost"))),
        expose=tuple(dict.fromkeys(item.value for item in settings.items("network.expose"))),
        ca=settings.value("network.ca") or "host",
    )


def _process(settings: MergedSettings, resolver: PathResolver) -> tuple[Process, tuple[str, ...]]:
    """Rights and filter, and the path of the filter's file, links not resolved."""
    seccomp = settings.values.get("process.seccomp") or Sourced("default", BUILT_IN)
    name: str = seccomp.value
    taken: tuple[str, ...] = ()
    resolved_file = resolver.canonical_path(seccomp) if name.startswith(("/", "~", "$")) else None
    if resolved_file:
        taken = (spelling.expand_path(name, resolver.facts.variables),)
        name = resolved_file[0]
    return Process(sandbox_root=bool(settings.value("process.sandbox_root")), seccomp=name), taken


def _resolve_environment(
    settings: MergedSettings, facts: HostFacts, secrets: frozenset[str]
) -> EnvironmentRules:
    """The environment variables of the command: those that are passed, and values that are set."""
    entries = settings.entries.get("environment.set", {})
    variables = {name: value for name, value in facts.variables.items() if name in spelling.VARIABLES}
    return EnvironmentRules(
        passed=tuple(dict.fromkeys(item.value for item in settings.items("environment.pass"))),
        set={
            name: spelling.substitute(item.value, variables)
            for name, item in sorted(entries.items())
            if item.value is not None
        },
        secret=secrets,
    )


def _secret_sources(settings: MergedSettings) -> frozenset[str]:
    """The variables that hold secrets: of the host, and as the shims' programs get them."""
    shims = settings.entries.get("credentials.shims", {}).values()
    pairs = [pair for item in shims if item.value is not None for pair in item.value.secrets.items()]
    return frozenset(name for variable, text in pairs for name in (variable, values.secret_reference(text)))


def _credentials(settings: MergedSettings, http: tuple[HttpCredential, ...]) -> Credentials:
    shims = {
        name: Shim(
            {
                variable: values.secret_reference(text)
                for variable, text in sorted(item.value.secrets.items())
            },
            tuple(dict.fromkeys(values.command(text) for text in item.value.allow)),
        )
        for name, item in sorted(settings.entries.get("credentials.shims", {}).items())
        if item.value is not None
    }
    signing = tuple(dict.fromkeys(item.value for item in settings.items("credentials.signing")))
    return Credentials(settings.value("credentials.cloud") or "none", shims, http, signing)


def _mcp_tools(settings: MergedSettings) -> tuple[str, ...] | None:
    """The tools of `mcp`; None where no layer has it, unlike an empty list."""
    if "mcp.tools" not in settings.lists:
        return None
    return tuple(dict.fromkeys(item.value for item in settings.items("mcp.tools")))


def _resources(settings: MergedSettings, facts: HostFacts) -> Resources:
    """The limits. Of memory a preset never gives more than three quarters of the machine's."""

    def limit(name: str) -> Any:  # noqa: ANN401 - of the field's type
        value = settings.value(f"resources.{name}")
        return None if value == UNLIMITED else value

    memory, time = limit("memory"), limit("time")
    size = values.size(memory) if memory else None
    if size and facts.memory and settings.values["resources.memory"].source.layer.startswith("preset "):
        size = min(size, facts.memory // 4 * 3)
    return Resources(
        memory=size,
        cpus=limit("cpus"),
        pids=limit("pids"),
        files=limit("files"),
        time=values.duration(time) if time else None,
    )


def _accepted_gaps(settings: MergedSettings) -> Iterator[AcceptedGap]:
    for item in settings.items("accept_gaps"):
        yield AcceptedGap(item.value.feature, item.value.method, item.value.reason, item.source)
