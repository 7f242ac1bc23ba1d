"""The support of podman for each feature of a policy."""

from __future__ import annotations

from sandwright.methods.shared import containers, reasons
from sandwright.policy.declaration import Declaration, Support

DECLARATION = Declaration(
    "podman",
    {
        **containers.SUPPORT,
        "network.http": Support("cannot", reasons.NO_INSPECTION),
        "credentials.http": Support("cannot", reasons.NO_INSPECTION),
        "workspace": Support("cannot", reasons.WORKSPACE),
        "network.private": Support("exact", reasons.PRIVATE_OF_ENGINES),
        "network.expose": Support(
            "exact", f"{reasons.PORTS}; where Podman is this machine's and this user's: others are refused"
        ),
        "network.later-sockets": Support("partly", reasons.LATER),
        "network.abstract-sockets": Support("cannot", reasons.ABSTRACT),
        "process.root": Support("partly", reasons.COMMAND_IS_ROOT),
        "process.kernel": Support("exact"),
        "process.seccomp": Support("exact"),
        "resources.pids": Support("exact", reasons.FIRST_PROCESS),
        "gvisor.engine": Support("unused", reasons.ENGINE_IS_GVISORS),
    },
    control_groups="caller",
    unreported={
        "calls": reasons.UNSEEN_RUNTIME,
        "sockets": reasons.UNSEEN_HIDDEN,
        "hosts": reasons.UNSEEN_PROXY,
        "bridge": "",
        "paths": reasons.UNSEEN_MOUNTS,
    },
    namespaces=frozenset(("pid", "ipc", "uts", "cgroup")),
)
