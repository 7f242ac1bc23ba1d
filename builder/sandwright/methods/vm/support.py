"""The enforcement of each feature of a policy by a separate kernel."""

from __future__ import annotations

import dataclasses

from sandwright.methods.bwrap import support as bwrap
from sandwright.methods.shared import reasons
from sandwright.policy.declaration import Declaration, Support

NO_NETWORK = "the guest kernel has no network device except its loopback"
CARRIED = "the launcher relays connections to the guest kernel"
NO_HOST_SOCKETS = "sockets belong to the guest kernel, which has none of the host's"
PROCESSORS = "User-Mode Linux has one processor; a cgroup of the guest kernel limits its share"

_OWN: dict[str, Support] = {
    "network.proxy": Support("exact", CARRIED),
    "network.host": Support("cannot", NO_NETWORK),
    "network.unix-sockets": Support("cannot", NO_HOST_SOCKETS),
    "network.no-sockets": Support("exact", NO_HOST_SOCKETS),
    "network.other-sockets": Support("exact", NO_HOST_SOCKETS),
    "network.later-sockets": Support("exact", NO_HOST_SOCKETS),
    "network.other-later-sockets": Support("exact", NO_HOST_SOCKETS),
    "network.abstract-sockets": Support("exact", NO_HOST_SOCKETS),
    "network.own-sockets": Support("exact", "they belong to the guest kernel"),
    "network.localhost": Support("exact", CARRIED),
    "network.expose": Support("exact", CARRIED),
    "process.sandbox-root": Support("stricter", "capabilities of the guest kernel; no set-user-ID programs"),
    "process.root": Support(
        "exact", "root of the guest kernel, whose process is at most root of a user namespace"
    ),
    "process.kernel": Support("exact", "/proc and /sys belong to the guest kernel"),
    "credentials.shims": Support("cannot", "the bridge is a Unix socket of the host"),
    "resources.memory": Support("exact", "the guest has no more memory, including that of its kernel"),
    "resources.cpus": Support("stricter", PROCESSORS),
    "resources.pids": Support("exact", "by a cgroup of the guest kernel"),
}

_LANDLOCK: dict[str, Support] = {
    "filesystem.read-all": Support(
        "stricter", "files created later in a directory with denied entries are unreadable"
    ),
    "filesystem.attributes": Support(
        "partly",
        "an attacker who controls the guest kernel sees names, sizes and times of all files, and arguments "
        "of other processes, because there are no namespaces",
    ),
    "process.sandbox-root": Support("stricter", "root inside has no capabilities"),
    "process.root": Support(
        "partly", "root of the guest kernel, whose process has UID 0 of the host, without capabilities"
    ),
}
"""Differences if Landlock confines the kernel's process instead of namespaces."""

DECLARATION = Declaration(
    "vm",
    {**bwrap.DECLARATION.support, **_OWN},
    unreported={
        "calls": "the guest kernel denies them and reports the error only to the program",
        "sockets": NO_HOST_SOCKETS,
        "hosts": "",
        "bridge": reasons.UNSEEN_NO_BRIDGE,
        "paths": reasons.UNSEEN_MOUNTS,
    },
    namespaces=frozenset(("user", "pid", "ipc", "uts", "cgroup")),
    masks_kernel=True,
)

WITH_LANDLOCK = dataclasses.replace(
    DECLARATION,
    support={**DECLARATION.support, **_LANDLOCK},
    namespaces=frozenset(),
    masks_kernel=False,  # by the kernel inside
)
"""The form `vm-landlock`."""
