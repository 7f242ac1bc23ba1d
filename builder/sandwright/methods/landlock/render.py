"""Renders the rules by which the launcher restricts a command with Landlock and seccomp."""

from __future__ import annotations

import dataclasses

from sandwright.launcher.plan import LandlockPlan, SocketPlan
from sandwright.methods.bwrap.render import start_directory
from sandwright.methods.landlock.grants import encode_grants, grants
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.authorities import authority_environment
from sandwright.render.filters import architecture, bpf_filter
from sandwright.render.launcher import common_plan, launch_program, socket_plan
from sandwright.render.mounts import MountPlan, mount_plan
from sandwright.render.proxy_env import sandbox_environment
from sandwright.seccomp.closing import closing_filter


def is_supervised(policy: ResolvedPolicy) -> bool:
    """Whether the launcher makes, binds and connects the sandbox's sockets: not in the host's network."""
    network = policy.network
    needed = network.makes_sockets or network.localhost or network.mode == "proxy"
    return network.mode != "host" and bool(needed)


def render_landlock(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """`rules`, `seccomp.bpf`, `closed.bpf`, `launch` and its plan. Raise like `render_bwrap`."""
    network = policy.network
    open_, ports = network.mode == "host", network.mode != "host"
    supervised = is_supervised(policy)
    closed = closing_filter(
        architecture(policy),
        network=open_,
        listens=supervised or bool(network.expose),
        sockets=supervised and network.makes_sockets,
    )
    files = (
        Artifact("rules", encode_grants(grants(policy)), "what may be read and written"),
        Artifact("seccomp.bpf", bpf_filter(policy, supervised=supervised), "the filter of system calls"),
        Artifact("closed.bpf", closed, "the filter of what Landlock doesn't hold"),
    )
    trusted = {} if policy.network.http else authority_environment(policy)  # the launcher names the run's own
    settings = {**trusted, **sandbox_environment(policy)}
    common = common_plan(policy, MountPlan("host", (), (), ()), "landlock")
    launch = dataclasses.replace(
        common,
        absent=(),  # new files in hidden places stay hidden
        never=(*common.never, "TMPDIR") if policy.filesystem.tmp == "private" else common.never,
        project=None,
        sockets=dataclasses.replace(socket_plan(policy), supervised=True) if supervised else SocketPlan(),
        expose=(),
        localhost=(),
        landlock=LandlockPlan(
            settings=tuple(f"{name}={value}" for name, value in settings.items()),
            start_directory=start_directory(policy, mount_plan(policy, root="host")),
            temporary=policy.filesystem.tmp_path if policy.filesystem.tmp == "private" else None,
            ports_closed=ports,
            ports_connect=tuple(map(str, network.localhost)) if ports else (),
            ports_bind=tuple(map(str, network.expose)) if ports else (),
        ),
    )
    return *files, *launch_program(policy, launch, files, "runs a command under Landlock")
