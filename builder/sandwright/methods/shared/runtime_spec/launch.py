"""Renders the launcher of OCI runtimes: runc, crun and runsc."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sandwright.launcher import LAUNCH_INIT
from sandwright.launcher.plan import BackstopPlan, ImagePlan, RuntimePlan
from sandwright.methods.shared.shims import shim_plan
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.authorities import with_authorities
from sandwright.render.hostnames import name_plan
from sandwright.render.landlock_backstop import backstop_plan
from sandwright.render.launcher import common_plan, launch_program
from sandwright.render.mounts import MountPlan
from sandwright.render.placeholders import ignored_directories

_HOLES: Mapping[str, re.Pattern[bytes]] = {
    "args": re.compile(rb'^    "args": \[\s*("/bin/sh")', re.MULTILINE),
    "env": re.compile(rb'^    "env": \[()', re.MULTILINE),
    "terminal": re.compile(rb'^    "terminal": (false)', re.MULTILINE),
    "cgroup": re.compile(rb'^    "cgroupsPath": ("/sandwright-run")', re.MULTILINE),
    "network": re.compile(rb'^        ()"type": "network"', re.MULTILINE),
    "mounts": re.compile(rb'^  "mounts": \[()', re.MULTILINE),
    "seccomp": re.compile(rb'^    "seccomp": (\{$.*?^    \})', re.MULTILINE | re.DOTALL),
}
"""The parts of the configuration that a run replaces, each as the group of a pattern.

Strings have no line breaks there, so that no value can look like one of these."""


def runtime_launcher(
    policy: ResolvedPolicy,
    plan: MountPlan,
    files: tuple[Artifact, ...],
    *,
    gvisor: bool,
    points: Sequence[str],
    private: Sequence[str],
) -> tuple[Artifact, ...]:
    """`launch` for an OCI runtime, and its plan.

    `files` are the configuration, and accounts to lie over the image's. `points` are the mount points that
    the image has to have. `private` are the names at the root that are not the image's.
    """
    limits = policy.resources
    shims = shim_plan(policy, "gvisor" if gvisor else "oci")
    looped = shims.loopback
    base = common_plan(policy, plan, "runtime")
    looped = looped or bool(base.expose or base.localhost)
    own_network = policy.network.mode == "proxy" or looped
    limited = any(each is not None for each in (limits.memory, limits.cpus, limits.pids))
    rootless = policy.facts.uid != 0
    config = next(each.content for each in files if each.name == "config.json")
    base = replace(base, ignored=() if gvisor else ignored_directories(plan.placeholders))
    base = replace(base, memory=None, cpus=None, pids=None)  # the runtime's
    base = replace(with_authorities(policy, plan, base), names=name_plan(policy))
    every = replace(
        base,
        refused=_NO_GROUP if gvisor and rootless and limited else None,
        runtime=RuntimePlan(
            gvisor=gvisor,
            rootless=rootless,
            flags=tuple(_runsc_flags(policy, looped=looped)) if gvisor else (),
            own_network=own_network,
            config_holes=config_holes(
                config, own_network=own_network, asks=any(each.name == "seccomp.bpf" for each in files)
            ),
        ),
        image=ImagePlan(
            root=policy.image,
            points=tuple(points),
            private_names=tuple(private),
            host_names=policy.network.mode == "host",
        ),
        shims=shims,
        backstop=BackstopPlan() if gvisor else backstop_plan(policy, root="image"),
    )
    purpose = "runs a command in a container of an OCI runtime"
    return launch_program(policy, every, files, purpose, inside=LAUNCH_INIT)


_NO_GROUP = "runsc without root has no cgroup: resources.memory, cpus and pids need root, or another method"


def config_holes(config: bytes, *, own_network: bool, asks: bool = False) -> tuple[tuple[str, str], ...]:
    """The parts of a configuration that each run replaces, with their first and last positions."""
    found = {name: pattern.search(config) for name, pattern in _HOLES.items()}
    places = {name: match.span(1) for name, match in found.items() if match is not None}
    return tuple(
        (name, f"{begin} {end}")
        for name, (begin, end) in sorted(places.items(), key=lambda each: each[1])
        if (name != "network" or own_network) and (name != "seccomp" or asks)
    )


def _runsc_flags(policy: ResolvedPolicy, *, looped: bool) -> Iterator[str]:
    """`looped`: the sandbox's loopback is that of the network namespace which `launch` makes."""
    yield "--oci-seccomp"
    yield f"--network={'none' if policy.network.mode == 'none' and not looped else 'host'}"
    if policy.facts.uid != 0:
        yield "--rootless"
    if policy.network.unix_sockets:
        yield "--host-uds=open"
