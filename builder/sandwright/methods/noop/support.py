"""What noop makes of each feature of a policy."""

from __future__ import annotations

from sandwright.methods.shared import reasons
from sandwright.policy.declaration import Declaration, Support

DECLARATION = Declaration(
    "noop",
    {
        "filesystem.read-all": Support("exact"),
        "filesystem.read": Support("cannot", "noop enforces nothing"),
        "filesystem.write": Support("cannot", "noop enforces nothing"),
        "filesystem.readonly": Support("cannot", "noop enforces nothing"),
        "filesystem.deny": Support("cannot", "noop enforces nothing"),
        "filesystem.absent": Support("cannot", "noop enforces nothing"),
        "filesystem.absent-elsewhere": Support("cannot", "noop enforces nothing"),
        "filesystem.protect": Support("cannot", "noop enforces nothing"),
        "filesystem.protect-elsewhere": Support("cannot", "noop enforces nothing"),
        "filesystem.links": Support("cannot", "noop enforces nothing"),
        "filesystem.tmp-private": Support("cannot", "noop enforces nothing"),
        "filesystem.tmp-shared": Support("exact"),
        "network.none": Support("cannot", "noop enforces nothing"),
        "network.proxy": Support("cannot", "noop enforces nothing"),
        "network.host": Support("exact"),
        "network.unix-sockets": Support("exact"),
        "network.no-sockets": Support("cannot", "noop enforces nothing"),
        "network.other-sockets": Support("cannot", "noop enforces nothing"),
        "network.later-sockets": Support("cannot", "noop enforces nothing"),
        "network.other-later-sockets": Support("cannot", "noop enforces nothing"),
        "network.abstract-sockets": Support("cannot", "noop enforces nothing"),
        "network.localhost": Support("exact"),
        "process.unprivileged": Support("cannot", "noop enforces nothing"),
        "process.privileged": Support("exact"),
        "process.root": Support("cannot", "noop enforces nothing"),
        "process.kernel": Support("cannot", "noop enforces nothing"),
        "process.seccomp": Support("cannot", "noop enforces nothing"),
        "macos": Support("unused", reasons.FRAGMENTS),
        "environment.pass": Support("cannot", "noop enforces nothing"),
        "environment.set": Support("exact"),
        "credentials.cloud": Support("cannot", "noop enforces nothing"),
        "credentials.shims": Support("cannot", "noop enforces nothing"),
        "user.mapping": Support("exact"),
        "resources.memory": Support("cannot", "noop enforces nothing"),
        "resources.cpus": Support("cannot", "noop enforces nothing"),
        "resources.pids": Support("cannot", "noop enforces nothing"),
        "resources.files": Support("cannot", "noop enforces nothing"),
        "resources.time": Support("cannot", "noop enforces nothing"),
        "image": Support("unused", reasons.HOST_ROOT),
        "outer": Support("unused", reasons.OUTER_IS_GVISORS),
    },
    enforces=False,
    mounts=False,
)
