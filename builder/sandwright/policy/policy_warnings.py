"""Warnings about settings of a policy that have no effect, or less than it seems, on this host."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable, Iterator

from sandwright import user_dirs
from sandwright.errors import UsageError
from sandwright.inputs import LiveHost
from sandwright.mountinfo import file_system_type
from sandwright.policy import explain
from sandwright.policy.hosts import listed_pattern
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.visible import one_line


def collect_warnings(
    policy: ResolvedPolicy, inputs: LiveHost, *, mounts: bool, image_root: bool = False
) -> tuple[str, ...]:
    """A line for each grant without effect, each about Git, and each restricted file with several names.

    A grant is void where another rule decides at its path, nothing is there, or the network's mode ignores
    it. `inputs` records the questions to the host. `mounts` is that of the method's declaration;
    `image_root`: links of the host are not in the
    sandbox's root. Raise UsageError where the policy's own file,
    or Git's configuration, has several names, and where a mount would not cover a name in another case.
    """
    if mounts:
        _check_other_case(policy, inputs)
    absent = (*(_missing_paths(policy) if mounts else ()), *(_linked_paths(policy) if image_root else ()))
    found = (
        *_ineffective_rules(policy),
        *absent,
        *_git_warnings(policy),
        *_second_names(policy, inputs),
        *_exposed_ports(policy),
        *_hosts_without_proxy(policy),
        *_pattern_tunnels(policy),
    )
    return tuple(map(one_line, found))


def _git_warnings(policy: ResolvedPolicy) -> Iterator[str]:
    facts, tree = policy.facts, policy.filesystem.tree
    if facts.git_worktree and not tree.changes_host(f"{facts.git_worktree[0]}/HEAD"):
        yield f"Git cannot commit here: {explain.worktree_grant(facts)}"
    for item in policy.settings.items("filesystem.git"):
        if item.value == "config":
            yield f"{item.source}: {CONFIG_DANGER}"


CONFIG_DANGER = (
    "config lets a program inside choose what the host's Git runs: core.fsmonitor and core.hooksPath, "
    "filters, aliases, included files; inspect the repository's configuration before you use Git there"
)


def _ineffective_rules(policy: ResolvedPolicy) -> Iterator[str]:
    for rule in policy.filesystem.rules:
        why = explain.why_void(policy, rule)
        if why:
            yield f"{rule.source}: {rule.kind} {rule.written} {why}"


def _missing_paths(policy: ResolvedPolicy) -> Iterator[str]:
    tree, facts = policy.filesystem.tree, policy.facts
    for rule in policy.filesystem.rules:
        listed = rule.origin == "listed" and not rule.source.is_shipped
        if not listed or rule.kind not in ("read", "write") or facts.kind(rule.path) is not None:
            continue
        parent = rule.path.rpartition("/")[0] or "/"
        if not (tree.changes_host(parent) if rule.writable else tree.shows_host(parent)):
            yield f"{rule.source}: {rule.written} grants nothing, as there is no {rule.path}"


def _linked_paths(policy: ResolvedPolicy) -> Iterator[str]:
    for rule in policy.filesystem.rules:
        listed = rule.origin == "listed" and not rule.source.is_shipped
        if not listed or rule.kind not in ("read", "write") or not rule.through:
            continue
        link = rule.through[-1]
        if not policy.filesystem.tree.shows_host(link.rpartition("/")[0] or "/"):
            yield (
                f"{rule.source}: {rule.written} leads through the link {link}, which an image's root lacks: "
                f"inside, the path is {rule.path}"
            )


def _second_names(policy: ResolvedPolicy, inputs: LiveHost) -> Iterator[str]:
    """A mount hides or holds a name, not the file: by another hard link it is unchanged."""
    user = f"{user_dirs.config()}/policy.yaml"
    count = inputs.status(user).names
    if count > 1:
        raise UsageError(
            f"{user} has {count} names (hard links), and a sandbox could write it under another name: make "
            "it a separate file, with `cp -p` and `mv`"
        )
    for rule in policy.filesystem.rules:
        if rule.kind not in ("deny", "readonly") or policy.facts.kind(rule.path) != "file":
            continue
        count = inputs.status(rule.path).names
        if count < 2:
            continue
        text = f"{rule.path} has {count} names (hard links), and only this one is protected"
        if _controls_host(rule, policy):
            raise UsageError(f"{text}: make it a separate file, with `cp -p` and `mv`")
        yield f"{rule.kind} {rule.written}: {text}"


def _check_other_case(policy: ResolvedPolicy, inputs: LiveHost) -> None:
    """Raise UsageError for a restricted path that its file system also finds by another spelling."""
    for rule in policy.filesystem.rules:
        if rule.kind not in ("deny", "readonly") or policy.facts.kind(rule.path) not in ("file", "directory"):
            continue
        for folder, name, other in other_spellings(rule.path):
            found = [inputs.status(f"{folder}/{each}").mode != 0 for each in (name, other)]
            if not all(found) or _are_listed({name, other}, folder, inputs):
                continue
            kind = file_system_type(inputs.status(rule.path).device)
            if kind in _FOLDED_BY_KERNEL:
                continue
            raise UsageError(
                f"cannot enforce {rule.kind} {rule.written}: {folder}/{name} is also {folder}/{other} on "
                f"its file system ({kind or 'of unknown type'}), and a mount covers only one spelling: "
                "use a directory on a file system that distinguishes both"
            )


# Here all spellings of a name are one entry of the kernel's name cache, so a mount covers them all. FUSE,
# CIFS and 9p can have an entry for each.
_FOLDED_BY_KERNEL = frozenset(
    {"ext4", "f2fs", "tmpfs", "vfat", "msdos", "exfat", "ntfs3", "hfs", "hfsplus", "iso9660", "xfs"}
)
_SPELLINGS: tuple[Callable[[str], str], ...] = (
    str.swapcase,
    functools.partial(unicodedata.normalize, "NFC"),
    functools.partial(unicodedata.normalize, "NFD"),
)


def other_spellings(path: str) -> Iterator[tuple[str, str, str]]:
    """A directory, the last name in a path that has another spelling, and that spelling."""
    parts = path.split("/")
    for spell in _SPELLINGS:
        for at in range(len(parts) - 1, 0, -1):
            if (other := spell(parts[at])) != parts[at]:
                yield "/".join(parts[:at]), parts[at], other
                break


def _are_listed(names: set[str], folder: str, inputs: LiveHost) -> bool:
    """Whether all are entries of a directory. One that is found and is none is another's second spelling.

    Their inode numbers do not help: FUSE and CIFS can have a number for each spelling.
    """
    return names <= {each.removesuffix("/") for each in inputs.ask("listing", folder or "/")}


def _controls_host(rule: PathRule, policy: ResolvedPolicy) -> bool:
    """Whether a file decides about programs of the host: the policy, or Git's configuration."""
    folder, _, name = rule.path.rpartition("/")
    git = folder in policy.facts.git_directories and name in ("config", "config.worktree")
    return rule.origin == "policy" or (rule.origin == "protected" and (git or name == "sandbox.yaml"))


def _exposed_ports(policy: ResolvedPolicy) -> Iterator[str]:
    """Servers inside are the host's own there, on every address that they listen on."""
    if policy.network.mode == "host" and policy.network.expose:
        source = policy.source("network.expose")
        yield f"{source}: expose has no effect with mode: host, which exposes all ports"


def _hosts_without_proxy(policy: ResolvedPolicy) -> Iterator[str]:
    """Only the proxy reads the list. A preset's list is left to the mode of the policy that extends it."""
    listed = [item for item in policy.settings.items("network.allow") if not item.source.is_shipped]
    if policy.network.mode == "none" and listed:
        yield f"{listed[0].source}: network.allow has no effect with mode: none; set network.mode: proxy"


def _pattern_tunnels(policy: ResolvedPolicy) -> Iterator[str]:
    """Tunnels to names and addresses that may be the same servers as those of opened hosts."""
    for item in policy.settings.items("network.allow") if policy.network.mode == "proxy" else ():
        pattern = listed_pattern(item.value)
        for host in policy.network.http:
            if "*" in pattern.host and pattern.covers_host(host.host):
                yield (
                    f"{item.source}: through {item.value} a program may reach {host.name} by another name or "
                    "address, past its rules in network.http; list exact names"
                )
