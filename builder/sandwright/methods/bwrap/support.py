"""What bwrap makes of each feature of a policy."""

from __future__ import annotations

from sandwright.methods.shared import reasons
from sandwright.policy.declaration import Declaration, Support

DECLARATION = Declaration(
    "bwrap",
    {
        "filesystem.read-all": Support("exact"),
        "filesystem.read": Support("exact"),
        "filesystem.write": Support("exact"),
        "filesystem.readonly": Support("exact"),
        "filesystem.deny": Support("exact", reasons.DENIED_LATER_HIDDEN),
        "filesystem.deny-inside": Support("exact"),
        "filesystem.attributes": Support("exact"),
        "filesystem.absent": Support("exact", reasons.COVERED),
        "filesystem.absent-elsewhere": Support("cannot", reasons.UNCOVERED),
        "filesystem.protect": Support("exact", reasons.COVERED),
        "filesystem.protect-elsewhere": Support("partly", reasons.APPEARS),
        "filesystem.links": Support("cannot", reasons.LINKS),
        "filesystem.tmp-private": Support("exact"),
        "filesystem.tmp-shared": Support("exact"),
        "network.none": Support("exact"),
        "network.proxy": Support("exact"),
        "network.private": Support("exact"),
        "network.host": Support("exact"),
        "network.unix-sockets": Support("exact"),
        "network.no-sockets": Support("exact", reasons.SUPERVISED),
        "network.other-sockets": Support("exact", reasons.SUPERVISED),
        "network.later-sockets": Support("exact", reasons.SUPERVISED),
        "network.other-later-sockets": Support("exact", reasons.SUPERVISED),
        "network.abstract-sockets": Support("exact", reasons.SUPERVISED),
        "network.own-sockets": Support("exact", reasons.SUPERVISED),
        "network.no-own-sockets": Support("exact", reasons.NO_UNIX_SOCKETS),
        "network.localhost": Support("exact", reasons.PORTS),
        "network.expose": Support("exact", reasons.PORTS),
        "network.ca": Support("exact", reasons.HOSTS_OWN_FILES),
        "process.unprivileged": Support("exact"),
        "process.sandbox-root": Support("stricter", "root of a user namespace has no rights outside it"),
        "process.root": Support("exact"),
        "process.kernel": Support("exact", reasons.KERNEL_AT_RENDERING),
        "process.seccomp": Support("exact"),
        "macos": Support("unused", reasons.FRAGMENTS),
        "environment.pass": Support("exact"),
        "environment.set": Support("exact"),
        "credentials.cloud": Support("exact"),
        "credentials.shims": Support("exact"),
        "user.mapping": Support("exact"),
        "resources.memory": Support("cannot", reasons.NO_CGROUP),
        "resources.cpus": Support("cannot", reasons.NO_CGROUP),
        "resources.pids": Support(
            "exact", "RLIMIT_NPROC, which a user namespace counts by itself since Linux 5.14"
        ),
        "resources.files": Support("exact"),
        "resources.time": Support("exact", reasons.BY_LAUNCHER),
        "image": Support("unused", reasons.HOST_ROOT),
        "gvisor.engine": Support("unused", reasons.ENGINE_IS_GVISORS),
    },
    preset_limits=reasons.PROCESSES_OUTSIDE,
    unreported={
        "calls": "",
        "sockets": "",
        "hosts": "",
        "bridge": "",
        "paths": "",
    },
)
