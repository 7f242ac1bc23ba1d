"""sandwright's files on the host. No policy can grant them, since they decide about sandboxes.

The paths come from the facts of the host, so every caller that resolves a policy has them. Those below the
home hold for any facts, also for facts that were written by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sandwright.policy.declaration import Declaration
from sandwright.policy.facts import KEPT, STATE_KEYS, HostFacts
from sandwright.policy.links import through_replaceable
from sandwright.policy.paths import ancestors, canonical_with_links, depth, is_inside, same_name
from sandwright.policy.provenance import BUILT_IN, Faults
from sandwright.policy.rules import PathRule, PathRules
from sandwright.user_dirs import visible_scratch_path

HIDDEN = (".cache/sandwright/sessions", ".cache/sandwright/run", STATE_KEYS, f"{KEPT}/workspaces")
"""Below the home: rendered sandboxes of all projects, running sessions, the key of the render cache, and the
copies of projects in review."""

READONLY = (".cache/sandwright", ".config/sandwright")
"""Below the home: programs and images that run outside, the user's policy and approvals."""

TRUSTED = (
    *(".config/containers", ".config/docker", ".docker", ".local/share/containers"),
    ".local/share/sandwright",
)
"""Below the home: settings of Docker and Podman, which name programs of the host, Podman's images, and the
images that an installed wheel built."""

SYSTEM = (
    *("/etc/sandwright", "/var/lib/sandwright"),
    *("/etc/containers", "/etc/docker", "/var/lib/containers", "/var/lib/docker"),
)
"""The operator's policy, the accounts of `user` with the records of their rights; then root's engines, whose
settings name programs of the host, and whose images later sandboxes start from."""

SETTINGS = (".config/containers", ".config/docker", ".config/sandwright", ".docker")
SYSTEM_SETTINGS = ("/etc/containers", "/etc/docker", "/etc/sandwright")
"""The reserved directories with settings. Programs of the host also follow links in their subdirectories."""

SCRATCH_REASON = "temporary directories of trials and proofs"
_INSTALLATION = "sandwright's installation"
TRUSTED_REASON = "what programs of the host start or obey"


def reserved_rules(facts: HostFacts) -> Iterator[PathRule]:
    """A rule for each reserved path: sandwright's state, files that the host trusts, its installation."""
    hidden = [*facts.reserved_hidden, *(f"{facts.home}/{name}" for name in HIDDEN)]
    readonly = [*facts.reserved_readonly, *(f"{facts.home}/{name}" for name in READONLY)]
    for directory in dict.fromkeys(hidden):
        yield _reserved_rule(directory, "deny", "sandwright's own", facts)
    for directory in dict.fromkeys(readonly):
        yield _reserved_rule(directory, "readonly", "sandwright's own", facts)
    yield _reserved_rule(visible_scratch_path(facts.uid), "readonly", SCRATCH_REASON, facts)
    for directory in dict.fromkeys((*facts.trusted, *(f"{facts.home}/{name}" for name in TRUSTED), *SYSTEM)):
        yield _reserved_rule(directory, "readonly", TRUSTED_REASON, facts)
    for directory in facts.installation:
        yield _reserved_rule(directory, "readonly", _INSTALLATION, facts)


def closed_paths(facts: HostFacts) -> list[str]:
    """The reserved paths except the installation, which is readable inside, for rights of other accounts."""
    return [rule.path for rule in reserved_rules(facts) if rule.why != _INSTALLATION]


def rules_in_force(rules: Sequence[PathRule], before: PathRules, facts: HostFacts) -> Iterator[PathRule]:
    """The reserved rules that restrict a grant of `before`."""
    there = {rule.path for rule in rules if facts.kind(rule.path) is not None}
    for rule in rules:
        changes, exists = before.changes_host(rule.path), rule.path in there
        held = not exists and not there.isdisjoint(ancestors(rule.path))
        if (changes and not held) or (exists and rule.kind == "deny" and before.shows_host(rule.path)):
            yield rule


def reserved_faults(grants: Iterable[PathRule], reserved: Sequence[PathRule], faults: Faults) -> None:
    """A fault for each grant of such a directory, or of something in it.

    Only the scratch directory itself is closed: trials and proofs grant directories in it, with random names.
    """
    closed = [rule for rule in reserved if rule.why != _INSTALLATION]
    for grant in grants:
        for rule in closed:
            inside = (
                grant.path == rule.path if rule.why == SCRATCH_REASON else is_inside(grant.path, rule.path)
            )
            if inside and (grant.writable or rule.why not in (TRUSTED_REASON, SCRATCH_REASON)):
                faults.add(grant.source, f"{grant.written} is in {rule.path}, {_ungranted(rule)}")
                break


def _ungranted(rule: PathRule) -> str:
    if rule.why in (TRUSTED_REASON, SCRATCH_REASON):
        return f"{rule.why}: no policy can let it be written"
    return "where sandwright keeps what decides over sandboxes: no policy can grant it"


def granting_rules(rules: Iterable[PathRule], facts: HostFacts) -> PathRules:
    """The grants among rules, without the restrictions, which a policy may accept."""
    return PathRules((rule for rule in rules if rule.kind in ("read", "write")), key=same_name(facts))


def open_reserved_paths(
    rules: Sequence[PathRule], facts: HostFacts, declaration: Declaration
) -> Iterator[str]:
    """A line for each reserved path that a method leaves open under a policy's rules."""
    grants = granting_rules(rules, facts)
    found = reserved_rules(facts) if declaration.enforces else ()
    closed = sorted(found, key=lambda rule: depth(rule.path))  # one line for a directory and its entries
    yield from _unheld_links(closed, grants, declaration)
    refused: set[str] = set()
    for rule in rules_in_force(closed, grants, facts):
        if declaration.other_account and rule.kind == "deny" and not grants.changes_host(rule.path):
            continue  # `places.private` makes these directories, with mode 0700
        lacking = (declaration.of(feature) for feature in _required_features(rule, grants, facts))
        support = next((each for each in lacking if each.level == "cannot"), None)
        if support is not None and refused.isdisjoint(ancestors(rule.path)):
            refused.add(rule.path)
            yield _open_path_message(rule, grants, declaration.method, support.reason)


def _unheld_links(closed: Iterable[PathRule], grants: PathRules, declaration: Declaration) -> Iterator[str]:
    """A line for each link to a reserved path that the sandbox can replace for the next start."""
    support = declaration.of("filesystem.links")
    links = {link: rule for rule in closed for link in through_replaceable(rule.through, grants)}
    for link, rule in links.items() if support.level == "cannot" else ():
        yield (
            f"{declaration.method} cannot keep the link {link}, which leads to {rule.path} ({rule.why}), "
            f"from being replaced: {support.reason}. Grant less, or put the directory itself there; "
            "accept_gaps does not apply"
        )


def _required_features(rule: PathRule, grants: PathRules, facts: HostFacts) -> Iterator[str]:
    """The features that a method needs to hold a reserved rule."""
    if not grants.changes_host(rule.path):
        yield "filesystem.deny"
        return
    yield "filesystem.deny-inside" if rule.kind == "deny" else "filesystem.readonly"
    if facts.kind(rule.path) is None:
        inside = is_inside(rule.path, canonical_with_links(facts.project, facts)[0])
        yield "filesystem.absent" if inside else "filesystem.absent-elsewhere"


def _open_path_message(rule: PathRule, grants: PathRules, method: str, reason: str) -> str:
    what = "from being read and written" if rule.kind == "deny" else "from being written"
    grant = next((each for each in grants.deciding(rule.path) if each.writable), None)
    through = f" with write {grant.written or grant.path} ({grant.source})" if grant else ""
    advice = ", or install sandwright elsewhere (pipx, uv tool)" if rule.why == _INSTALLATION else ""
    return (
        f"{method} cannot keep {rule.path} ({rule.why}) {what}{through}: {reason}. Grant less{advice}, or "
        "choose another method; accept_gaps does not apply"
    )


def _reserved_rule(directory: str, kind: str, why: str, facts: HostFacts) -> PathRule:
    path, through = canonical_with_links(directory, facts)
    return PathRule(
        path, "deny" if kind == "deny" else "readonly", "policy", BUILT_IN, directory, why, through
    )
