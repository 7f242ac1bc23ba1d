"""Renders the launcher of OCI runtimes: runc, crun and runsc."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sandwright.methods.shared.shims import shim_values
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.launcher import common_values, launch_and_watch
from sandwright.render.mounts import MountPlan
from sandwright.render.templates import Quoted


def runtime_launcher(
    policy: ResolvedPolicy,
    plan: MountPlan,
    files: tuple[Artifact, ...],
    *,
    gvisor: bool,
    points: Sequence[str],
    private: Sequence[str],
) -> tuple[Artifact, ...]:
    """`launch` for an OCI runtime, and `watch`.

    `files` are the configuration, and accounts to lie over the image's. `points` are the mount points that
    the image has to have. `private` are the names at the root that are not the image's.
    """
    limits = policy.resources
    shims = shim_values(policy, "gvisor" if gvisor else "oci")
    values = {
        **common_values(policy, plan),
        "runtime": True,
        "shims": shims,
        "own_network": policy.network.mode == "proxy" or bool(shims and shims["loopback"]),
        "watched": True,
        "gvisor": gvisor,
        "flags": Quoted(" ".join(_runsc_flags(policy, shims)) if gvisor else ""),
        "limited": any(each is not None for each in (limits.memory, limits.cpus, limits.pids)),
        "rootless": policy.facts.uid != 0,
        "points": points,
        "private": private,
        "image": policy.image,
        "accounts": [each.name for each in files if each.name in ("passwd", "group")],
        "ending": "",
        "watch_options": Quoted(" --wait --opaque" if gvisor else " --wait"),
    }
    return launch_and_watch("runtime", values, files, "runs a command in a container of an OCI runtime")


def _runsc_flags(policy: ResolvedPolicy, shims: Mapping[str, object] | None) -> Iterator[str]:
    """Where a bridge is reached by the loopback, that of the network namespace which `launch` makes."""
    looped = bool(shims and shims["loopback"])
    yield "--oci-seccomp"
    yield f"--network={'none' if policy.network.mode == 'none' and not looped else 'host'}"
    if policy.facts.uid != 0:
        yield "--rootless"
    if policy.network.unix_sockets:
        yield "--host-uds=open"
