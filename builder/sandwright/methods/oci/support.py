"""The support of oci for each feature of a policy."""

from __future__ import annotations

from sandwright.methods.shared import containers, reasons
from sandwright.policy.declaration import Declaration, Support

DECLARATION = Declaration(
    "oci",
    {
        **containers.SUPPORT,
        "network.localhost": Support("exact", reasons.PORTS),
        "network.expose": Support("exact", reasons.PORTS),
        "network.later-sockets": Support("partly", reasons.LATER),
        "network.abstract-sockets": Support("cannot", reasons.ABSTRACT),
        "process.root": Support("exact"),
        "process.kernel": Support("exact"),
        "process.seccomp": Support("exact"),
        "resources.pids": Support("exact", reasons.FIRST_PROCESS),
        "gvisor.engine": Support("unused", reasons.ENGINE_IS_GVISORS),
    },
    control_groups="caller",
    unreported={
        "calls": "",
        "sockets": reasons.UNSEEN_HIDDEN,
        "hosts": "",
        "bridge": "",
        "paths": reasons.UNSEEN_MOUNTS,
    },
    namespaces=frozenset(("mount", "pid", "ipc", "uts", "cgroup", "user")),
    masks_kernel=True,
)
