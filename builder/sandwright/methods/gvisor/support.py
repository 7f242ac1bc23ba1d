"""The support of gvisor for each feature of a policy."""

from __future__ import annotations

from sandwright.methods.shared import containers, reasons
from sandwright.policy.declaration import Declaration, Support

DECLARATION = Declaration(
    "gvisor",
    {
        **containers.SUPPORT,
        "network.localhost": Support("exact", reasons.PORTS_NOT_OUTER),
        "network.expose": Support("exact", reasons.PORTS_NOT_OUTER),
        "network.later-sockets": Support("exact", "runsc does not connect to sockets of the host"),
        "network.abstract-sockets": Support("exact", "its kernel has a separate namespace for them"),
        "process.root": Support("exact"),
        "process.kernel": Support("exact"),
        "process.seccomp": Support("exact", "with --oci-seccomp; a refusal is EPERM or ENOSYS"),
        "resources.pids": Support("stricter", "the threads of runsc are counted as well"),
        "gvisor.engine": Support("exact"),
    },
    control_groups="caller",
    outer_control_groups={"docker": "daemon"},
    unreported={
        "calls": "gVisor's kernel handles them and does not report them",
        "sockets": "gVisor does not connect to any",
        "hosts": "",
        "bridge": "",
        "paths": "gVisor's kernel reports the error only to the program",
    },
    namespaces=frozenset(("mount", "pid", "ipc", "uts", "cgroup")),
    masks_kernel=True,
)
