"""Renders the program that runs a command as an account of the project's own: the method `user`.

The account is the wall: the kernel enforces its permissions, and the set-up gives it access to the workspace
only. Around it stand namespaces and the mount plan that bubblewrap gets too, made by root before it becomes
the account, so that a policy means the same with both. `plan` holds the mounts, as words that each end with
NUL, which `launch` takes where it is root. No daemon runs, and no user namespace is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from sandwright.methods.bwrap.render import PLACEHOLDER_MODE, SWITCHES, start_directory
from sandwright.methods.user.launch import account_launcher
from sandwright.policy.paths import ancestors, depth
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.authorities import authority_environment, session_authorities
from sandwright.render.baseline import load_baseline
from sandwright.render.filters import bpf_filter
from sandwright.render.hostnames import name_artifacts, name_places
from sandwright.render.mount_watch import mounts_artifact
from sandwright.render.mounts import Mount, MountPlan, mount_plan
from sandwright.render.placeholders import ignored_directories
from sandwright.render.proxy_env import sandbox_environment

ACCOUNTS = "/var/lib/sandwright/accounts"
"""The directory of all accounts: each has one of its name there, root's, with its home in it."""


@dataclass(frozen=True)
class DedicatedAccount:
    """An account by name, its home, and the empty directory on which the root of a run is made."""

    name: str
    home: str
    place: str


def account_for(project: str, uid: int) -> DedicatedAccount:
    """The account of a project, by its canonical path, for the user who works there: always the same."""
    name = f"sandwright-{account_digest(project, uid)[:12]}"
    return DedicatedAccount(name, f"{ACCOUNTS}/{name}/home", f"{ACCOUNTS}/{name}/root")


def account_digest(project: str, uid: int) -> str:
    """The digest that identifies a project and a user in names."""
    return hashlib.sha256(f"{uid}:{project}".encode("utf-8", "surrogateescape")).hexdigest()


def account_of(policy: ResolvedPolicy) -> DedicatedAccount:
    """The account for a policy's project and user."""
    return account_for(policy.canonical(policy.facts.project), policy.facts.uid)


def render_user(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """`plan`, `seccomp.bpf`, `mounts`, `launch`, `launch.plan`."""
    return render_for(policy, account_of(policy))


def render_for(policy: ResolvedPolicy, account: DedicatedAccount) -> tuple[Artifact, ...]:
    """Render the artifacts for any account; an account with an empty home has none.

    Raise like `render_bwrap`.
    """
    plan = mount_plan(policy, root="host")
    places = name_places(policy)
    over = (word for name, directory in places.items() for word in ("beside", name, directory))
    steps = (*_step_words(policy, plan, account), *over)
    words = b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in steps)
    watched = [mount for mount in _mounts_with_home(plan, account) if mount.target not in places.values()]
    files = (
        Artifact("plan", words, "the mounts of its root"),
        Artifact("seccomp.bpf", bpf_filter(policy, supervised=False), "the filter of system calls"),
        *name_artifacts(places),
        mounts_artifact(watched, plan.placeholders),
    )
    launcher = account_launcher(
        policy,
        plan,
        files,
        name=account.name,
        directory=account.place,
        start=start_directory(policy, plan),
        settings=_account_environment(policy, account),
        home=account.home,
    )
    return *files, *launcher


def _account_environment(policy: ResolvedPolicy, account: DedicatedAccount) -> dict[str, str]:
    """The variables: HOME is the account's, unless the policy sets it."""
    home = {"HOME": account.home or "/nonexistent"}
    return {**home, **authority_environment(policy), **sandbox_environment(policy)}


def _step_words(policy: ResolvedPolicy, plan: MountPlan, account: DedicatedAccount) -> Iterator[str]:
    """The steps of `launcher/source/user.c`, with arguments. Read-only remounts come after all mounts."""
    mounts = _mounts_with_home(plan, account)
    memory = {
        mount.target for mount in mounts if mount.kind in ("tmpfs", "mask") and mount.entry == "directory"
    }
    on_host = {mount.target for mount in mounts} - memory
    for mount in mounts:
        if mount.kind != "symlink" and _in_memory(mount.target, memory, on_host):
            yield from ("directory" if mount.entry == "directory" else "file", mount.target)
        yield from _mount_step(mount)
        if mount.kind == "proc":
            for path in sorted((*load_baseline().readonly, *SWITCHES)):
                yield from ("try", path)
    passed_over = ignored_directories(plan.placeholders)
    for placeholder in plan.placeholders:
        if placeholder.path in passed_over:
            yield from ("ignored", placeholder.path)
        else:
            directory = placeholder.entry == "directory"
            yield from (
                ("tmpfs", placeholder.path, PLACEHOLDER_MODE)
                if directory
                else ("ro-bind", placeholder.path, placeholder.path)
            )
    for mount in mounts:
        if mount.target in memory and not mount.writable:
            yield from ("readonly", mount.target)
    if policy.network.mode == "none":
        yield "loopback"
    authorities = session_authorities(policy)
    for name, places in (("authorities.pem", authorities.bundles), ("authorities.jks", authorities.stores)):
        yield from (word for target in places for word in ("trusted", name, target))


def _mounts_with_home(plan: MountPlan, account: DedicatedAccount) -> list[Mount]:
    """The plan's, and the account's home."""
    mounts = list(plan.mounts)
    if account.home:
        mounts.append(Mount(account.home, "bind", writable=True, source=account.home))
    return sorted(mounts, key=lambda mount: (depth(mount.target), mount.target))


def _in_memory(path: str, memory: set[str], on_host: set[str]) -> bool:
    """Whether the nearest mount above a path is the sandbox's, where a mount point has to be made."""
    return next((above in memory for above in ancestors(path) if above in memory or above in on_host), False)


def _mount_step(mount: Mount) -> tuple[str, ...]:
    match mount.kind:
        case "bind":
            return ("bind" if mount.writable else "ro-bind", mount.source, mount.target)
        case "symlink":
            return ("symlink", mount.source, mount.target)
        case "mask" if mount.entry != "directory":
            return ("ro-bind", "/dev/null", mount.target)
        case "tmpfs" | "mask":
            return ("tmpfs", mount.target, "1777" if mount.writable else "0755")
        case "dev" | "proc":
            return (mount.kind, mount.target)
        case _:
            assert_never(mount.kind)
