"""Accesses that a policy allows and the user's own policy does not, and that therefore need approval.

Without a policy of the user's and a managed one, it is compared with the preset `default`, on which both
build.

Two whole policies on one host are compared, as `resolve` made them, so that it does not matter how something
is spelled: by a link, by a variable, by leaving a preset out. Between two paths at which either side has a
rule nothing changes, so comparing them at those paths compares them everywhere.

These need no approval: hosts that a shipped preset lists, images, the system call profiles `default` and
`strict` unless the user's own policy names another, fragments of presets for macOS, and this project's
persistent directories (`$CACHE`). A test has a case for each field of a policy, or its name among these.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Collection, Iterator, Set
from dataclasses import dataclass, replace

from sandwright.policy import load, values
from sandwright.policy.facts import HostFacts
from sandwright.policy.hosts import HostIndex, HostPattern, listed_pattern
from sandwright.policy.layers import merged
from sandwright.policy.mcp_rules import includes_tools
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.names import PRESETS, SECCOMP_PROFILES
from sandwright.policy.paths import ancestors, canonical, is_inside, same_name
from sandwright.policy.resolved import Network, ResolvedPolicy, Shim
from sandwright.policy.rules import PathRules
from sandwright.policy.secretnames import why_secret

_LIMITS = ("memory", "cpus", "pids", "files", "time")

OTHER_METHOD = "uses a method that your own policy does not name:"


@dataclass(frozen=True)
class Loosening:
    """One access that a policy allows in addition.

    `what` is a verb with its object: `reads`, `uses the host's network`. `subject` is a path, a variable, a
    socket …; paths below the project and the home are relative to these, so that they are the same on other
    machines. Empty where `what` is complete.
    """

    what: str
    subject: str = ""

    def __str__(self) -> str:
        """`reads ~/.ssh`."""
        return f"{self.what} {self.subject}".strip()


def without_command_line(policy: MergedPolicy) -> MergedPolicy:
    """The policy of its files: the command line is the user's own word.

    Except for `extends`, which changes the meaning of the project's file.
    """
    return MergedPolicy.unchecked(
        [layer for layer in policy.layers if layer.kind != "run" or layer.policy.extends is not None]
    )


def without_project(policy: MergedPolicy) -> MergedPolicy:
    """The policy without the project's file: the managed policy and the user's, or else `default`."""
    return MergedPolicy.unchecked([layer for layer in policy.layers if layer.kind in ("floor", "user")])


def loosenings(
    policy: ResolvedPolicy,
    baseline: ResolvedPolicy,
    *,
    remote: Collection[str],
    image_root: Set[str],
) -> tuple[Loosening, ...]:
    """The accesses that a policy allows and `baseline` does not, the most important first.

    `remote` names the methods that run a sandbox on another machine, `image_root` those whose root is an
    image's.
    """
    found = [
        *_methods(policy, baseline, remote),
        *_rights(policy, baseline),
        *_git(policy, baseline),
        *_shims(policy, baseline),
        *_signing(policy, baseline),
        *_network_loosenings(policy, baseline),
        *_tool_loosenings(policy, baseline),
        *_variables(policy, baseline),
        *_paths(policy, baseline, image_root),
        *_limits(policy, baseline),
        *_accepted(policy, baseline),
    ]
    return tuple(dict.fromkeys(found))


def _methods(
    policy: ResolvedPolicy, baseline: ResolvedPolicy, remote: Collection[str]
) -> Iterator[Loosening]:
    known = set(baseline.methods)
    if "noop" in policy.methods and "noop" not in known:
        yield Loosening("enforces nothing: method noop")
    for name in policy.methods:
        if name in remote and name not in known:
            yield Loosening("runs on another machine with your credentials: method", name)
        elif known and name not in known and name != "noop":
            yield Loosening(OTHER_METHOD, name)


def _rights(policy: ResolvedPolicy, baseline: ResolvedPolicy) -> Iterator[Loosening]:
    if policy.process.sandbox_root and not baseline.process.sandbox_root:
        yield Loosening("lets programs gain rights: process.sandbox_root")
    if policy.mapping == "off" and baseline.mapping != "off":
        yield Loosening("runs as the image's own user: user.mapping off")
    if policy.mapping == "auto" and baseline.mapping == "required":
        yield Loosening("lets files belong to another user: user.mapping auto")
    if policy.workspace == "live" and baseline.workspace == "review":
        yield Loosening("changes the project without review: workspace live")
    if policy.filesystem.home == "private" and baseline.filesystem.home == "throwaway":
        yield Loosening("keeps the home directory between runs: filesystem.home private")
    if policy.network.own_sockets and not baseline.network.own_sockets:
        yield Loosening("lets programs create Unix sockets: network.own_sockets")
    if not policy.filesystem.placeholders and baseline.filesystem.placeholders:
        yield Loosening(
            "lets programs write for a moment to protected files that the host creates during a run:",
            "filesystem.placeholders false",
        )
    yield from _filters(policy, baseline)


def _filters(policy: ResolvedPolicy, baseline: ResolvedPolicy) -> Iterator[Loosening]:
    """The filter of system calls, and macOS' rules."""
    name, allowed = policy.process.seccomp, baseline.process.seccomp
    if name in ("strict", "default") and allowed not in SECCOMP_PROFILES[SECCOMP_PROFILES.index(name) :]:
        yield Loosening("filters system calls by another profile: process.seccomp", name)
    if name == "build" and name != allowed:
        yield Loosening("lets programs leave set-user-id files: process.seccomp build")
    if name not in SECCOMP_PROFILES and name != allowed:
        text = policy.facts.texts.get(name, "").encode("utf-8", "surrogateescape")
        subject = f"{shown_path(name, policy.facts)} (sha256:{hashlib.sha256(text).hexdigest()})"
        yield Loosening("filters system calls as a file says:", subject)
    shipped = merged(load.presets(("default", "build", "ci"))).items("macos")
    known = {item.value for item in shipped}.union(baseline.macos)
    for fragment in policy.macos:
        if fragment not in known:
            yield Loosening("opens on macOS:", fragment)


def _git(policy: ResolvedPolicy, baseline: ResolvedPolicy) -> Iterator[Loosening]:
    """Git's configuration names programs, so more than the written files is reported."""
    if policy.grants_git("config") and not baseline.grants_git("config"):
        yield Loosening("chooses programs that the host's Git runs: filesystem.git config")


def _shims(policy: ResolvedPolicy, baseline: ResolvedPolicy) -> Iterator[Loosening]:
    for name, shim in policy.credentials.shims.items():
        other = baseline.credentials.shims.get(name)
        if other is None or not _covers(other, shim):
            commands = ", ".join(" ".join((*each.words, *"*" * each.more)) for each in shim.allow)
            secrets = ", ".join(sorted(shim.secrets.values()))
            yield Loosening(f"runs {name} on the host", f"({commands})" + f" with {secrets}" * bool(secrets))


def _signing(policy: ResolvedPolicy, baseline: ResolvedPolicy) -> Iterator[Loosening]:
    for key in policy.credentials.signing:
        if key not in baseline.credentials.signing:
            yield Loosening("signs commits and tags of the project with", key)


def _covers(limit: Shim, shim: Shim) -> bool:
    return shim.secrets.items() <= limit.secrets.items() and all(
        any(each.covers(command) for each in limit.allow) for command in shim.allow
    )


def _network_loosenings(policy: ResolvedPolicy, baseline: ResolvedPolicy) -> Iterator[Loosening]:
    other = baseline.network
    reaches = policy.network.mode == "none" or other.mode != "none"
    if policy.network.mode == "host" and other.mode != "host":
        yield Loosening("uses the host's network")
    yield from _http_loosenings(policy, baseline)
    for pattern in policy.network.allow:
        if any(host.host == pattern.host for host in policy.network.http):
            continue  # no tunnel
        yield from _tunnels_past_rules(policy, other, pattern)
        if not (reaches and other.hosts.covers(pattern)):
            yield from _pattern_loosenings(pattern)
    for path in policy.network.unix_sockets:
        if path not in other.unix_sockets:
            yield Loosening("connects to", shown_path(path, policy.facts))
    for port in policy.network.localhost:
        if port not in other.localhost:
            yield Loosening("connects to", f"localhost:{port}")
    for port in policy.network.expose:
        if port not in other.expose:
            yield Loosening("answers on the host at", f"localhost:{port}")


def _tunnels_past_rules(policy: ResolvedPolicy, other: Network, pattern: HostPattern) -> Iterator[Loosening]:
    """A tunnel to a host whose requests the baseline reads, though a pattern of its own covers the name."""
    opened = {host.host for host in policy.network.http}
    for host in other.http:
        if pattern.covers_host(host.host) and host.host not in opened:
            yield Loosening("connects past its rules in network.http to", host.name)


def _pattern_loosenings(pattern: HostPattern) -> Iterator[Loosening]:
    """A tunnel that the baseline does not allow."""
    if pattern.private:
        yield Loosening("reaches private addresses as", str(pattern))
    elif not shipped_hosts().covers(pattern):
        yield Loosening("connects to", str(pattern))


def _http_loosenings(policy: ResolvedPolicy, baseline: ResolvedPolicy) -> Iterator[Loosening]:
    """Requests to hosts that the baseline opens with narrower rules or not at all, and secrets for them."""
    other = baseline.network
    reaches = policy.network.mode == "none" or other.mode != "none"
    for host in policy.network.http:
        limit = other.opened(host.host, host.port) if reaches else None
        # A tunnel to a host that the baseline opens is none, at any port.
        closed = not reaches or any(each.host == host.host for each in other.http)
        if (
            host.private
            and not (limit and limit.private)
            and (closed or not other.hosts.covers(host.pattern))
        ):
            yield Loosening("reaches private addresses as", host.name)
        if limit is not None:
            for rule in host.uncovered(limit):
                yield Loosening("requests from", f"{host.name}: {rule}")
        elif closed or not _is_tunnel(other, replace(host.pattern, private=False)):
            yield Loosening("connects to", host.name)
    for secret in policy.credentials.http:
        lifetimes = [each.lifetime for each in baseline.credentials.http if secret.same_use(each)]
        if not lifetimes:
            yield Loosening("sends a secret of yours,", secret.use)
        elif secret.lifetime < min(lifetimes):
            yield Loosening(
                "reads a secret of yours more often,", f"{secret.origin}, each {secret.lifetime} s"
            )


def _tool_loosenings(policy: ResolvedPolicy, baseline: ResolvedPolicy) -> Iterator[Loosening]:
    """More tools of the command, if it is a server of MCP in the baseline."""
    limit = baseline.mcp_tools
    if limit is not None and policy.mcp_tools is None:
        yield Loosening("lets a client of MCP send any message: mcp")
    for tool in policy.mcp_tools or ():
        if limit is not None and not includes_tools(limit, [tool]):
            yield Loosening("lets a client of MCP call the tool", tool)


def _is_tunnel(other: Network, pattern: HostPattern) -> bool:
    return other.hosts.covers(pattern) or shipped_hosts().covers(pattern)


@functools.cache
def shipped_hosts() -> HostIndex:
    """The hosts that any shipped preset lists: model services and package registries."""
    listed = (item for name in PRESETS for item in merged(load.preset(name)).items("network.allow"))
    return HostIndex(listed_pattern(item.value) for item in listed)


def _variables(policy: ResolvedPolicy, baseline: ResolvedPolicy) -> Iterator[Loosening]:
    """Variables whose names look like secrets, and prefixes of names, which any secret may have.

    A sandbox sees the names of its paths, and so the values of variables in them. A secret that is passed
    only because the project removes a shim or a value of the user's is named as well.
    """
    shims = set(baseline.environment.secret)
    replaced = {name for name in baseline.environment.set if why_secret(name)}
    for name in sorted(shims | replaced):
        if policy.environment.passes(name) and not baseline.environment.passes(name):
            yield Loosening("passes", name)
    for pattern in policy.environment.passed:
        known = any(_passes(other, pattern) for other in baseline.environment.passed)
        if not known and (pattern.endswith("*") or why_secret(pattern)):
            yield Loosening("passes", pattern)
    for name in policy.facts.environment:
        known = name in baseline.facts.environment
        if not known and (name in shims or why_secret(name)):
            yield Loosening("shows in the name of a path", name)


def _passes(limit: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return limit.endswith("*") and values.pattern_covers(limit, pattern[:-1])
    return values.pattern_covers(limit, pattern)


def _paths(policy: ResolvedPolicy, baseline: ResolvedPolicy, image_root: Set[str]) -> Iterator[Loosening]:
    tree, other = policy.filesystem.tree, baseline.filesystem.tree
    both = [(tree, other), *_over_images(policy, baseline, image_root)]
    read, written = [], []
    own = (
        rule.path for rule in policy.filesystem.rules if rule.origin != "protected"
    )  # that only takes away
    excepted = (each.path for each in policy.filesystem.unprotected)
    theirs = set(baseline.filesystem.ruled_paths())
    caches = canonical(policy.facts.variables["CACHE"], policy.facts)
    paths = (path for path in (*own, *excepted, *theirs) if not is_inside(path, caches))
    for path in dict.fromkeys(paths):
        if tree.changes_host(path) and not other.changes_host(path):
            written.append(path)
        elif any(mine.shows_host(path) and not limit.shows_host(path) for mine, limit in both):
            read.append(path)
    for what, found, told in (("reads", read, [*read, *written]), ("writes", written, written)):
        listed = frozenset(told)
        new = [shown_path(each, policy.facts) for each in found if not _is_implied(each, listed, theirs)]
        yield from (Loosening(what, each) for each in sorted(new, key=lambda each: (each[:1] != "~", each)))


def _over_images(
    policy: ResolvedPolicy, baseline: ResolvedPolicy, image_root: Set[str]
) -> Iterator[tuple[PathRules, PathRules]]:
    """The rules of both, if the baseline has only methods with an image's root: its `/` shows no file."""
    if baseline.methods and image_root >= set(baseline.methods):
        key = same_name(policy.facts)
        alike = image_root >= set(policy.methods)
        mine = policy.filesystem.over_image(key) if alike else policy.filesystem.tree
        yield mine, baseline.filesystem.over_image(key)


def _is_implied(path: str, listed: Collection[str], decided: Collection[str]) -> bool:
    """Whether a listed path above this one implies it: no rule of `decided` stands between the two.

    The time is that of the path's depth, as a stranger chooses how many paths there are.
    """
    if path in decided:
        return False
    for above in ancestors(path):
        if above in listed:
            return True
        if above in decided:
            return False
    return False


def _limits(policy: ResolvedPolicy, baseline: ResolvedPolicy) -> Iterator[Loosening]:
    for name in _LIMITS:
        given = getattr(policy.resources, name)
        limit = getattr(baseline.resources, name)
        if limit is None:
            continue
        if given is None:
            yield Loosening("has no limit of", name)
        elif given > limit:
            yield Loosening("raises the limit of", f"{name} to {given}")


def _accepted(policy: ResolvedPolicy, baseline: ResolvedPolicy) -> Iterator[Loosening]:
    known = {(each.feature, each.method) for each in baseline.accept_gaps}
    for each in policy.accept_gaps:
        if (each.feature, each.method) not in known:
            yield Loosening("does without", f"{each.feature} under {each.method}")


def shown_path(path: str, facts: HostFacts) -> str:
    """A canonical path, relative to `$PROJECT` or `~` if possible, so it is the same on other machines."""
    places = (("$PROJECT", facts.project), ("~", facts.home))
    for name, place in places:
        root = canonical(place, facts)
        if root != "/" and is_inside(path, root):
            return name + path[len(root) :]
    return path
