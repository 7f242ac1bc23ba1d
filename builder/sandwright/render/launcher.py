"""Plans launchers, which start a rendered sandbox without Python.

A launcher checks that the host is as it was rendered for (artifacts by checksum, no restricted path that
appeared since, no link where a directory was), passes on the variables that the policy lists, never as an
argument, makes the placeholders of the mount plan, keeps the time limit, cleans up, and exits as the command
did. 124 says that the time was up, 125 that nothing was run. It never goes on without the sandbox.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sandwright.launcher import LAUNCH
from sandwright.launcher.plan import NAME, LaunchPlan, SocketPlan, plan_bytes
from sandwright.policy.paths import ancestors, below, is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import appearing, denied_names
from sandwright.policy.values import LOADERS
from sandwright.prebuilt import PrebuiltProgram
from sandwright.questions import EntryKind
from sandwright.render.artifact import Artifact
from sandwright.render.authorities import session_authorities
from sandwright.render.filters import architecture
from sandwright.render.mounts import MountPlan
from sandwright.render.proxy_env import sandbox_environment
from sandwright.render.shell import patterns


def common_plan(policy: ResolvedPolicy, plan: MountPlan, method: str) -> LaunchPlan:
    """The launch plan with the fields of all methods; renderers set their own by `dataclasses.replace`.

    Raise RenderError for an invalid name of a variable.
    """
    environment, resources = policy.environment, policy.resources
    never = (*sorted({*sandbox_environment(policy), *environment.secret}), *LOADERS)
    there = _expected_kinds(plan)
    covered = {placeholder.path for placeholder in plan.placeholders}
    uncreatable = [each.path for each in plan.uncreatable]
    return LaunchPlan(
        method=method,
        absent=tuple(dict.fromkeys((*appearing(policy, covered), *uncreatable))),
        denied_names=tuple(
            dict.fromkeys((*denied_names(policy, covered), *((each, "") for each in uncreatable)))
        ),
        there_directories=tuple(path for path, entry in there.items() if entry == "directory"),
        there_files=tuple(path for path, entry in there.items() if entry != "directory"),
        mount_ways=tuple(_mount_ways(policy, plan)),
        writable=tuple(writable_directories(policy)),
        review=policy.workspace == "review",
        mcp=policy.mcp_tools is not None,
        uid=policy.facts.uid if policy.mapping == "required" else None,
        passed=tuple(patterns(environment.passed)),
        never=tuple(patterns(never)),
        project=_lock_directory(policy),
        placeholder_directories=tuple(each.path for each in plan.placeholders if each.entry == "directory"),
        placeholder_files=tuple(
            (each.path, each.content.decode().rstrip("\n"))
            for each in plan.placeholders
            if each.entry == "file"
        ),
        time=resources.time,
        memory=resources.memory,
        cpus=None if resources.cpus is None else round(resources.cpus * 1000),
        pids=resources.pids,
        files=resources.files,
        proxy=policy.network.mode == "proxy",
        expose=_forwarded_ports(policy, policy.network.expose),
        localhost=_forwarded_ports(policy, policy.network.localhost),
        authorities=session_authorities(policy),
    )


def _forwarded_ports(policy: ResolvedPolicy, ports: Sequence[int]) -> tuple[str, ...]:
    """Whether the sandbox has a separate network: the host's needs no relay."""
    return () if policy.network.mode == "host" else tuple(map(str, ports))


def _lock_directory(policy: ResolvedPolicy) -> str:
    """The directory that all makers of placeholders in the same places lock.

    Work trees of one repository have those in the repository in common, so it is the repository's; without
    one, the project.
    """
    project, facts = policy.canonical(policy.facts.project), policy.facts
    if facts.git_worktree:
        return policy.canonical(facts.git_worktree[1])
    git = below(project, ".git")
    return git if facts.kind(git) == "directory" else project


def socket_plan(policy: ResolvedPolicy) -> SocketPlan:
    """The section `sockets`: the sockets that the launcher connects to for programs inside."""
    network = policy.network
    return SocketPlan(
        supervised=network.makes_sockets, own=network.has_own_sockets, host=network.unix_sockets
    )


def launch_program(
    policy: ResolvedPolicy,
    plan: LaunchPlan,
    others: Sequence[Artifact],
    purpose: str,
    *,
    inside: PrebuiltProgram | None = None,
) -> tuple[Artifact, ...]:
    """`launch`, the program for the policy's host, and `launch.plan`, by which it checks `others` too.

    `inside` is the program that a sandbox starts first, and is checked too. `launch` is in no plan: a process
    that can replace it can replace both. Raise RenderError for a processor that has no such programs.
    """
    first = [] if inside is None else [_program_artifact(policy, inside, "starts the command inside")]
    sums = tuple((each.name, each.digest.removeprefix("sha256:")) for each in (*others, *first))
    content = plan_bytes(dataclasses.replace(plan, artifacts=sums))
    return (_program_artifact(policy, LAUNCH, purpose), *first, Artifact(NAME, content, "what launch does"))


def _program_artifact(policy: ResolvedPolicy, program: PrebuiltProgram, purpose: str) -> Artifact:
    content = program.path(f"linux/{architecture(policy)}").read_bytes()
    return Artifact(program.name, content, purpose, executable=True)


def writable_directories(policy: ResolvedPolicy) -> list[str]:
    """Directories where a program inside can plant programs on the host: launchers start none from there."""
    rules = policy.filesystem.rules
    return sorted({rule.path for rule in rules if rule.writable and not rule.private})


def _mount_ways(policy: ResolvedPolicy, plan: MountPlan) -> list[str]:
    """The paths of mount points in the sandbox's home, in the host directory that is bound there."""
    source, home = policy.filesystem.home_source, policy.canonical(policy.facts.home)
    targets = (mount.target for mount in plan.mounts if source and is_inside(mount.target, home))
    paths = (each for target in targets for each in (*ancestors(target), target))
    return sorted({source + each[len(home) :] for each in paths if is_inside(each, home)} - {source})


def _expected_kinds(plan: MountPlan) -> dict[str, EntryKind]:
    """Mount points, which may have changed since, and the paths between them and a writable directory."""
    writable = {mount.target for mount in plan.mounts if mount.kind == "bind" and mount.writable}
    found: dict[str, EntryKind] = {}
    for mount in plan.mounts:
        if mount.kind in ("bind", "mask") and mount.target != "/" and not mount.of_image:
            above = ancestors(mount.target)
            inside = [index for index, path in enumerate(above) if path in writable]
            found.update(dict.fromkeys(reversed(above[: inside[-1]] if inside else ()), "directory"))
            if inside or mount.target in writable or mount.kind == "mask":
                found[mount.target] = mount.entry
            if mount.source and mount.rule is not None and mount.rule.origin == "home":
                found[mount.source] = "directory"  # gVisor would follow a link
    return found
