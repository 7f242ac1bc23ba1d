"""The support of seatbelt for each feature of a policy."""

from __future__ import annotations

from sandwright.methods.shared import reasons
from sandwright.policy.declaration import Declaration, Support

_LOG = "macOS logs them: `log stream --predicate 'sender == \"Sandbox\"'`"

DECLARATION = Declaration(
    "seatbelt",
    {
        "filesystem.read-all": Support("exact"),
        "filesystem.read": Support("exact"),
        "filesystem.write": Support("exact"),
        "filesystem.readonly": Support("exact"),
        "filesystem.deny": Support("exact"),
        "filesystem.deny-inside": Support("exact"),
        "filesystem.attributes": Support("exact"),
        "filesystem.absent": Support("exact"),
        "filesystem.absent-elsewhere": Support("exact"),
        "filesystem.protect": Support(
            "exact", "parent directories of such names can be neither created nor renamed"
        ),
        "filesystem.protect-elsewhere": Support("exact"),
        "filesystem.links": Support("exact"),
        "filesystem.git-links": Support("partly", reasons.GIT_LINKS_MOVED),
        "filesystem.home": Support("cannot", "Seatbelt puts nothing in the place of a directory"),
        "filesystem.tmp-private": Support(
            "exact", "one for each project below TMPDIR, kept between runs; /tmp is not writable"
        ),
        "filesystem.tmp-shared": Support(
            "stricter", "a directory for each project below TMPDIR; /tmp is not writable"
        ),
        "network.none": Support("exact"),
        "network.proxy": Support("exact", "only the proxy's port on localhost"),
        "network.http": Support("cannot", reasons.NO_INSPECTION),
        "network.private": Support("exact"),
        "network.host": Support("exact"),
        "network.unix-sockets": Support("exact"),
        "network.no-sockets": Support("exact"),
        "network.other-sockets": Support("exact"),
        "network.later-sockets": Support("exact"),
        "network.other-later-sockets": Support("exact"),
        "network.abstract-sockets": Support("exact", reasons.MACOS_NONE),
        "network.own-sockets": Support("stricter", "only in the temporary directory"),
        "network.no-own-sockets": Support("exact"),
        "network.localhost": Support("exact"),
        "network.expose": Support("exact", "programs in the sandbox can listen there as well"),
        "network.ca": Support("exact", reasons.HOSTS_OWN_FILES),
        "process.unprivileged": Support("exact", "set-user-ID programs cannot be executed"),
        "process.sandbox-root": Support("stricter", "set-user-ID programs cannot be executed"),
        "process.root": Support("partly", "macOS has no user namespaces"),
        "process.kernel": Support("unused", reasons.MACOS_KERNEL),
        "process.seccomp": Support("unused", reasons.SECCOMP_IS_LINUX),
        "macos": Support("exact"),
        "mcp.tools": Support("cannot", reasons.MESSAGES_UNREAD),
        "environment.pass": Support("exact"),
        "environment.set": Support("exact"),
        "credentials.cloud": Support("exact"),
        "credentials.http": Support("cannot", reasons.NO_INSPECTION),
        "credentials.shims": Support("exact"),
        "workspace": Support("cannot", "macOS has no mount namespace in which the copy could be shown"),
        "user.mapping": Support("exact"),
        "resources.memory": Support("cannot", reasons.MACOS_LIMITS),
        "resources.cpus": Support("cannot", reasons.MACOS_LIMITS),
        "resources.pids": Support("cannot", "RLIMIT_NPROC would count all processes of the user"),
        "resources.files": Support("exact"),
        "resources.time": Support(
            "cannot", "on macOS a process that has detached from its parents does not end with them"
        ),
        "image": Support("unused", reasons.HOST_ROOT),
        "gvisor.engine": Support("unused", reasons.ENGINE_IS_GVISORS),
    },
    mounts=False,
    unreported={
        "calls": _LOG,
        "sockets": _LOG,
        "hosts": "",
        "bridge": "",
        "paths": _LOG,
    },
)
