"""What a policy says that has no effect, or less than it seems, on this host."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.errors import UsageError
from sandwright.inputs import LiveHost
from sandwright.mountinfo import file_system_type
from sandwright.policy import explain
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule
from sandwright.visible import one_line


def collect_warnings(
    policy: ResolvedPolicy, inputs: LiveHost, *, mounts: bool, image_root: bool = False
) -> tuple[str, ...]:
    """A line for each grant without effect, each about Git, and each restricted file with several names.

    A grant is void where another rule decides at its path, nothing is there, or the network's mode ignores
    it. `inputs` keeps what was asked of the host. `mounts` is that of the method's declaration;
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
    )
    return tuple(map(one_line, found))


def _git_warnings(policy: ResolvedPolicy) -> Iterator[str]:
    facts, tree = policy.facts, policy.filesystem.tree
    if facts.git_worktree and not tree.changes_host(f"{facts.git_worktree[0]}/HEAD"):
        yield f"Git can't commit here: {explain.worktree_grant(facts)}"
    for item in policy.settings.items("filesystem.git"):
        if item.value == "config":
            yield f"{item.source}: {CONFIG_DANGER}"


CONFIG_DANGER = (
    "config lets a program inside choose what the host's Git runs: core.fsmonitor and core.hooksPath, "
    "filters, aliases, included files; look at the repository's configuration before you use Git there"
)


def _ineffective_rules(policy: ResolvedPolicy) -> Iterator[str]:
    for rule in policy.filesystem.rules:
        why = explain.why_void(policy, rule)
        if why:
            yield f"{rule.source}: {rule.kind} {rule.written} {why}"


def _missing_paths(policy: ResolvedPolicy) -> Iterator[str]:
    tree, facts = policy.filesystem.tree, policy.facts
    for rule in policy.filesystem.rules:
        listed = rule.origin == "listed" and not rule.source.layer.startswith("preset ")
        if not listed or rule.kind not in ("read", "write") or facts.kind(rule.path) is not None:
            continue
        parent = rule.path.rpartition("/")[0] or "/"
        if not (tree.changes_host(parent) if rule.writable else tree.shows_host(parent)):
            yield f"{rule.source}: {rule.written} grants nothing, as there is no {rule.path}"


def _linked_paths(policy: ResolvedPolicy) -> Iterator[str]:
    for rule in policy.filesystem.rules:
        listed = rule.origin == "listed" and not rule.source.layer.startswith("preset ")
        if not listed or rule.kind not in ("read", "write") or not rule.through:
            continue
        link = rule.through[-1]
        if not policy.filesystem.tree.shows_host(link.rpartition("/")[0] or "/"):
            yield (
                f"{rule.source}: {rule.written} leads through the link {link}, which an image's root lacks: "
                f"inside, the path is {rule.path}"
            )


def _second_names(policy: ResolvedPolicy, inputs: LiveHost) -> Iterator[str]:
    """A mount hides or holds a name, not the file: by another hard link it stays what it is."""
    for rule in policy.filesystem.rules:
        if rule.kind not in ("deny", "readonly") or policy.facts.kind(rule.path) != "file":
            continue
        count = inputs.status(rule.path).names
        if count < 2:
            continue
        text = f"{rule.path} has {count} names (hard links), and only this one is held"
        if _controls_host(rule, policy):
            raise UsageError(f"{text}: make it a separate file, with `cp -p` and `mv`")
        yield f"{rule.kind} {rule.written}: {text}"


def _check_other_case(policy: ResolvedPolicy, inputs: LiveHost) -> None:
    """Raise UsageError for a restricted path that the file system also finds by its name in another case."""
    for rule in policy.filesystem.rules:
        if rule.kind not in ("deny", "readonly") or policy.facts.kind(rule.path) not in ("file", "directory"):
            continue
        other = in_other_case(rule.path)
        if other == rule.path or inputs.status(other) != (found := inputs.status(rule.path)):
            continue
        if inputs.ask("artifact", other) != inputs.ask("artifact", rule.path) or found.names > 1:
            continue
        kind = file_system_type(found.device)
        if kind not in _FOLDED_BY_KERNEL:
            raise UsageError(
                f"{rule.kind} {rule.written} can't be enforced: {rule.path} is also {other} on its file "
                f"system ({kind or 'of unknown type'}), which ignores case itself, and a mount covers only "
                "one name: use a directory on a file system that distinguishes case"
            )


# Here all spellings of a name are one entry of the kernel's name cache, so a mount covers them all. FUSE,
# CIFS and 9p can have an entry for each.
_FOLDED_BY_KERNEL = frozenset(
    {"ext4", "f2fs", "tmpfs", "vfat", "msdos", "exfat", "ntfs3", "hfs", "hfsplus", "iso9660", "xfs"}
)


def in_other_case(path: str) -> str:
    """A path whose last name with letters has the other case; the path itself if it has no letters."""
    parts = path.split("/")
    index = max((at for at, part in enumerate(parts) if part.swapcase() != part), default=0)
    return "/".join((*parts[:index], parts[index].swapcase(), *parts[index + 1 :]))


def _controls_host(rule: PathRule, policy: ResolvedPolicy) -> bool:
    """Whether a file decides what runs on the host: the policy, or Git's configuration."""
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
    listed = [
        item for item in policy.settings.items("network.allow") if not item.source.layer.startswith("preset ")
    ]
    if policy.network.mode == "none" and listed:
        yield f"{listed[0].source}: network.allow has no effect with mode: none; set network.mode: proxy"
