"""bubblewrap: namespaces of the kernel, without a daemon and without root."""

from __future__ import annotations

from sandwright.methods.contract import Method, Parts
from sandwright.methods.properties import Properties

METHOD = Method(
    properties=Properties(
        own_user_namespace=True,
        shims=True,
        placeholders=True,
        records=True,
        verifiable=True,
        proposed={"linux": 1},
        isolation_layers=(
            "a mount namespace that holds what the plan shows",
            "a user namespace without rights outside",
            "namespaces of processes, network and IPC",
            "the filter of system calls",
            "Landlock, where the kernel has it: a second list of what may be written, and read where "
            "a policy lists that",
        ),
        kernel_exploit_impact=(
            "all files of the machine: the host's kernel answers, and there is no wall behind it"
        ),
    ),
    parts=Parts(
        declaration="sandwright.methods.bwrap.support:DECLARATION",
        render="sandwright.methods.bwrap.render:render_bwrap",
        read_back="sandwright.methods.bwrap.explain:read_bwrap",
        backend="sandwright.methods.bwrap.backend:Bwrap",
        expected="sandwright.methods.bwrap.expected:EXPECTED",
    ),
)
