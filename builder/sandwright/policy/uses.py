"""Lists the features that a policy uses, and refuses the policy for a method that cannot enforce one.

A feature is a word of `policy.declaration`, such as `network.proxy`. `check_expressible` compares; a gap that
the policy lists under `accept_gaps` becomes a finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from sandwright.errors import RenderError
from sandwright.policy.declaration import Declaration, Support
from sandwright.policy.limits import left_out
from sandwright.policy.links import through_replaceable
from sandwright.policy.names import FEATURES
from sandwright.policy.paths import ancestors, below, canonical_with_links, is_inside
from sandwright.policy.provenance import PolicySource
from sandwright.policy.reserved import open_reserved_paths
from sandwright.policy.resolved import AcceptedGap, ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.policy.spelling import expand_path

MAX_LINKS_TOLD = 5
"""Links that are named where a policy is refused for them."""


@dataclass(frozen=True)
class Use:
    """A feature that a policy uses, the affected values (in the policy's words), and their position."""

    feature: str
    what: str
    source: PolicySource


@dataclass(frozen=True)
class RenderFinding:
    """A difference between a policy and a method's rendering of it.

    `stricter`: less is possible, `reason` says why. `partly`: more is possible in the case that `reason`
    names. `degraded`: more is possible, and `accepted` is the policy's reason for taking that. `left-out`: a
    preset's limit is not set.
    """

    kind: Literal["stricter", "partly", "degraded", "left-out"]
    method: str
    use: Use
    reason: str
    accepted: str = ""

    def __str__(self) -> str:
        """One line for reports."""
        accepted = f"; accepted: {self.accepted}" if self.accepted else ""
        phrases = {"partly": "holds in part", "left-out": "of the preset is left out"}
        how = phrases.get(self.kind, f"is {self.kind}")
        return f"{self.method}: {self.use.feature} {how}: {self.reason}{accepted}"


def uses(policy: ResolvedPolicy) -> tuple[Use, ...]:
    """The features that a policy uses, each once, with its first place."""
    first: dict[str, Use] = {}
    for use in (*_filesystem_uses(policy), *_network_uses(policy), *_process_uses(policy)):
        first.setdefault(use.feature, use)
    return tuple(first[name] for name in FEATURES if name in first)


def check_expressible(policy: ResolvedPolicy, declaration: Declaration) -> tuple[RenderFinding, ...]:
    """Refuse features that a method can't enforce; give its other differences from the policy.

    Raise RenderError that names each feature the method can't enforce and `accept_gaps` does not list, and
    each of sandwright's own paths that it can't hold, which `accept_gaps` never covers.
    """
    method = declaration.method
    accepted = {each.feature: each for each in policy.accept_gaps if each.method == method}
    findings: list[RenderFinding] = []
    refused: list[str] = []
    gone = left_out(policy, declaration)
    for use in uses(policy):
        why_left_out = gone.get(use.feature.removeprefix("resources."))
        if why_left_out and use.feature.startswith("resources."):
            findings.append(RenderFinding("left-out", method, use, why_left_out))
            continue
        support = declaration.of(use.feature)
        if support.level in ("stricter", "partly"):
            findings.append(RenderFinding(support.level, method, use, support.reason))
        elif support.level == "cannot":
            reason = _acceptance_reason(policy, declaration, accepted.get(use.feature))
            if reason:
                findings.append(RenderFinding("degraded", method, use, support.reason, reason))
            else:
                refused.append(_unsupported_message(method, use, support))
    advice = [_suggest_alternatives(method)] if refused else []
    open_ = open_reserved_paths(policy.filesystem.rules, policy.facts, declaration)
    if found := [*refused, *advice, *open_]:
        raise RenderError(*found)
    return tuple(findings)


def absent_restrictions(policy: ResolvedPolicy) -> tuple[PathRule, ...]:
    """The denied and read-only paths that don't exist and that a program inside could create.

    Not where a file is in the way of a directory that they need.
    """
    tree = policy.filesystem.tree
    return tuple(
        rule
        for rule in policy.filesystem.rules
        if rule.origin in ("listed", "policy", "engine")
        and rule.kind in ("deny", "readonly")
        and policy.facts.kind(rule.path) is None
        and not file_in_the_way(rule.path, policy)
        and tree.changes_host(_nearest_existing_directory(rule.path, policy))
    )


def unprotected_names(policy: ResolvedPolicy) -> Iterator[tuple[str, PolicySource]]:
    """The protected paths that don't exist and that a program inside could create, with the source of each.

    The directory of the new name counts: `~/.claude` may be writable where `~` is not. A repository's
    directories have placeholders in every place.
    """
    files, facts = policy.filesystem, policy.facts
    project = policy.canonical(facts.project)
    outside = {each for each in facts.git_directories if not is_inside(each, project)}
    for protection in files.protections:
        for root in protection.roots:
            if facts.kind(root) == "directory" and root not in outside:
                for name in protection.names:
                    spelled = below(root, name.value)
                    path = canonical_with_links(spelled, facts)[0]
                    lifted = not protection.exceptions.isdisjoint((path, spelled))
                    if lifted or facts.kind(path) is not None:
                        continue
                    if files.tree.changes_host(_nearest_existing_directory(path, policy)):
                        yield path, name.source


def appearing(policy: ResolvedPolicy, covered: Collection[str]) -> Iterator[str]:
    """The restricted paths that don't exist, and would be open if they did: no mount is planned for them.

    Nothing appears at the paths of `covered`, or in them.
    """
    files, facts = policy.filesystem, policy.facts
    restricted = (rule.path for rule in files.rules if rule.kind in ("deny", "readonly"))
    missing = (path for path in restricted if facts.kind(path) is None)
    inside = tuple(f"{path}/" for path in covered)
    seen: dict[str, bool] = {}
    for path in dict.fromkeys([*missing, *(path for path, _ in unprotected_names(policy))]):
        if path in covered or path.startswith(inside):
            continue
        parent = path.rpartition("/")[0] or "/"
        if parent not in seen:
            seen[parent] = files.tree.shows_host(parent)
        if seen[parent]:
            yield path


def denied_names(policy: ResolvedPolicy, covered: Collection[str]) -> Iterator[tuple[str, str]]:
    """The denied names at which the host may make something, and where each leads; "" for nowhere.

    They are those that `appearing` has, and those that lead through links. A link that a program inside can
    replace is `filesystem.links`: then its current target is named.
    """
    files, facts = policy.filesystem, policy.facts
    missing = set(appearing(policy, covered))
    for rule in files.rules:
        linked = bool(rule.through) and not any(through_replaceable(rule.through, files.tree))
        if rule.kind == "deny" and (linked or rule.path in missing):
            spelled = _written_path(rule, policy) if linked else rule.path
            yield spelled, "" if facts.kind(rule.path) is None else rule.path


def _written_path(rule: PathRule, policy: ResolvedPolicy) -> str:
    """The path as the policy writes it; if that can't be read again, its target."""
    try:
        return expand_path(rule.written, policy.facts.variables)
    except ValueError:
        return rule.path


def file_in_the_way(path: str, policy: ResolvedPolicy) -> str:
    """The file, FIFO or socket that is where a path needs a directory; empty for none."""
    above = _nearest_existing_directory(path, policy)
    return above if policy.facts.kind(above) in ("file", "fifo", "socket", "device") else ""


def _nearest_existing_directory(path: str, policy: ResolvedPolicy) -> str:
    """The nearest directory above a path that exists: where the missing ones would be created."""
    return next((each for each in ancestors(path) if policy.facts.kind(each) is not None), "/")


def _acceptance_reason(policy: ResolvedPolicy, declaration: Declaration, gap: AcceptedGap | None) -> str:
    if gap is not None:
        return gap.reason
    return policy.reason if not declaration.enforces and policy.methods == (declaration.method,) else ""


def _unsupported_message(method: str, use: Use, support: Support) -> str:
    return f"{method} cannot enforce {use.feature} ({use.what}, {use.source}): {support.reason}"


def _suggest_alternatives(method: str) -> str:
    return (
        "choose another method, leave the feature out, or accept the gap: "
        f"accept_gaps: [{{feature: …, method: {method}, reason: …}}]"
    )


def _filesystem_uses(policy: ResolvedPolicy) -> Iterator[Use]:
    files = policy.filesystem
    read = "filesystem.read-all" if files.reads_all else "filesystem.read"
    yield Use(read, "filesystem.read", policy.source("filesystem.read"))
    for rule in files.rules:
        if rule.origin in ("listed", "git") and rule.kind != "read":
            yield Use(f"filesystem.{rule.kind}", f"{rule.kind} {rule.written or rule.path}", rule.source)
    project = policy.canonical(policy.facts.project)
    for rule in files.rules:
        if rule.kind == "deny" and files.tree.changes_host(rule.path.rpartition("/")[0] or "/"):
            yield Use("filesystem.deny-inside", f"deny {rule.written or rule.path}", rule.source)
    yield Use("filesystem.attributes", "filesystem.read", policy.source("filesystem.read"))
    for rule in absent_restrictions(policy):
        suffix = "" if is_inside(rule.path, project) else "-elsewhere"
        yield Use(f"filesystem.absent{suffix}", f"{rule.kind} {rule.written}", rule.source)
    for protection in files.protections:
        for name in protection.names:
            yield Use("filesystem.protect", f"protect {name.value}", name.source)
    for path, source in unprotected_names(policy):
        if not is_inside(path, project):
            yield Use("filesystem.protect-elsewhere", f"protect {path}", source)
            break
    git = next((path for path in policy.facts.git_directories if files.tree.changes_host(path)), "")
    if git:
        yield Use("filesystem.git-links", f"write {git}", policy.source("filesystem.write"))
    if files.links:
        listed = "; ".join(map(str, files.links[:MAX_LINKS_TOLD]))
        more = len(files.links) - MAX_LINKS_TOLD
        listed += f"; and {more} more" if more > 0 else ""
        yield Use("filesystem.links", listed, files.links[0].source)
    yield from _own_directory_uses(policy)


def _own_directory_uses(policy: ResolvedPolicy) -> Iterator[Use]:
    files = policy.filesystem
    if files.home != "host":
        yield Use("filesystem.home", f"home: {files.home}", policy.source("filesystem.home"))
    yield Use(f"filesystem.tmp-{files.tmp}", f"tmp: {files.tmp}", policy.source("filesystem.tmp"))


def _network_uses(policy: ResolvedPolicy) -> Iterator[Use]:
    network = policy.network
    yield Use(f"network.{network.mode}", f"mode: {network.mode}", policy.source("network.mode"))
    listed = (each.private for each in (*network.allow, *(host.pattern for host in network.http)))
    if network.mode == "proxy" and any(listed):
        yield Use("network.private", "private: true", policy.source("network.allow"))
    if network.mode == "proxy" and network.http:
        yield Use("network.http", f"http {network.http[0].host}", policy.source("network.http"))
    yield from _socket_uses(policy)
    if network.localhost:
        yield Use("network.localhost", "localhost", policy.source("network.localhost"))
    if network.expose:
        yield Use("network.expose", "expose", policy.source("network.expose"))
    if network.ca == "host" and network.mode != "none":
        yield Use("network.ca", "ca: host", policy.source("network.ca"))


def _socket_uses(policy: ResolvedPolicy) -> Iterator[Use]:
    network = policy.network
    sockets = Use("network.no-sockets", "unix_sockets", policy.source("network.unix_sockets"))
    if network.unix_sockets:
        yield Use("network.unix-sockets", sockets.what, sockets.source)
    if network.unix_sockets and policy.filesystem.reads_all:
        yield Use("network.other-sockets", sockets.what, sockets.source)
    elif not network.unix_sockets:
        yield sockets
    if network.unix_sockets:
        yield Use("network.other-later-sockets", sockets.what, sockets.source)
    elif network.mode != "host":  # with which every method refuses to make sockets of AF_UNIX
        yield Use("network.later-sockets", sockets.what, sockets.source)
    if network.unix_sockets and network.mode == "host":
        yield Use("network.abstract-sockets", sockets.what, sockets.source)
    socket_use = Use(
        "network.own-sockets",
        f"own_sockets: {str(network.own_sockets).lower()}",
        policy.source("network.own_sockets"),
    )
    if network.has_own_sockets:
        yield socket_use
    elif not (network.own_sockets or network.unix_sockets):
        yield replace(socket_use, feature="network.no-own-sockets")


def _credential_uses(policy: ResolvedPolicy) -> Iterator[Use]:
    for name in ("environment.set", "credentials.shims"):
        for key, item in policy.settings.entries.get(name, {}).items():
            if item.value is not None:
                yield Use(name, key, item.source)
    if policy.credentials.signing:  # it needs the same as shims: a program on the host, and a way to it
        yield Use("credentials.shims", "signing", policy.source("credentials.signing"))
    for credential in policy.credentials.http[:1]:
        yield Use("credentials.http", f"http {credential.host}", credential.source)
    if policy.credentials.cloud != "none":
        yield Use("credentials.cloud", "cloud: readonly", policy.source("credentials.cloud"))


def _process_uses(policy: ResolvedPolicy) -> Iterator[Use]:
    right = "sandbox-root" if policy.process.sandbox_root else "unprivileged"
    yield Use(f"process.{right}", "sandbox_root", policy.source("process.sandbox_root"))
    if policy.facts.uid == 0 and policy.facts.os == "linux":
        yield Use("process.root", "run by root", policy.source("process.sandbox_root"))
    yield Use("process.kernel", "/proc and /sys", policy.source("process.sandbox_root"))
    yield Use("process.seccomp", f"seccomp: {policy.process.seccomp}", policy.source("process.seccomp"))
    if policy.macos:
        yield Use("macos", "macos", policy.source("macos"))
    if policy.mcp_tools is not None:
        yield Use("mcp.tools", "mcp", policy.source("mcp.tools"))
    yield Use("environment.pass", "pass", policy.source("environment.pass"))
    yield from _credential_uses(policy)
    if policy.mapping == "required":
        yield Use("user.mapping", "mapping: required", policy.source("user.mapping"))
    for name in ("memory", "cpus", "pids", "files", "time"):
        if getattr(policy.resources, name) is not None:
            yield Use(f"resources.{name}", name, policy.source(f"resources.{name}"))
    if policy.workspace == "review":
        yield Use("workspace", "workspace: review", policy.source("workspace"))
    yield Use("image", f"image: {policy.image}", policy.source("image"))
    if policy.gvisor_engine != "none":
        yield Use("gvisor.engine", f"engine: {policy.gvisor_engine}", policy.source("gvisor.engine"))
