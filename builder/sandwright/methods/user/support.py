"""The support of user for each feature of a policy."""

from __future__ import annotations

from sandwright.methods.shared import reasons
from sandwright.policy.declaration import Declaration, Support

DECLARATION = Declaration(
    "user",
    {
        "filesystem.read-all": Support("stricter", reasons.RIGHTS),
        "filesystem.read": Support("stricter", reasons.RIGHTS),
        "filesystem.write": Support(
            "exact", "where the set-up has shared it with the account; the project always is"
        ),
        "filesystem.readonly": Support("exact"),
        "filesystem.deny": Support("exact", reasons.DENIED_LATER_HIDDEN),
        "filesystem.deny-inside": Support("exact"),
        "filesystem.attributes": Support("exact"),
        "filesystem.absent": Support("exact", reasons.PLACEHOLDER_DIRECTORY),
        "filesystem.absent-elsewhere": Support("cannot", reasons.UNCOVERED),
        "filesystem.protect": Support("exact", reasons.PLACEHOLDER_DIRECTORY),
        "filesystem.protect-elsewhere": Support("partly", reasons.APPEARS),
        "filesystem.links": Support("cannot", reasons.LINKS),
        "filesystem.git-links": Support("exact", reasons.SUPERVISED_LINKS),
        "filesystem.home": Support("cannot", "programs have the home directory of the account"),
        "filesystem.tmp-private": Support("exact"),
        "filesystem.tmp-shared": Support("exact"),
        "network.none": Support("exact"),
        "network.proxy": Support("exact", "where root starts it: others are refused"),
        "network.http": Support("exact", reasons.INSPECTED),
        "network.private": Support("exact"),
        "network.host": Support("exact"),
        "network.unix-sockets": Support("stricter", "each needs a separate access right for the account"),
        "network.no-sockets": Support("exact", reasons.NO_UNIX_SOCKETS),
        "network.other-sockets": Support("cannot", reasons.SOCKETS_BY_PATH),
        "network.later-sockets": Support("exact", reasons.NO_UNIX_SOCKETS),
        "network.other-later-sockets": Support("partly", reasons.LISTENING_IS_HIDDEN),
        "network.abstract-sockets": Support("cannot", reasons.ABSTRACT),
        "network.own-sockets": Support("stricter", reasons.NO_UNIX_SOCKETS),
        "network.no-own-sockets": Support("exact", reasons.NO_UNIX_SOCKETS),
        "network.localhost": Support("exact", reasons.PORTS_BY_ROOT),
        "network.expose": Support("exact", reasons.PORTS_BY_ROOT),
        "network.ca": Support("exact", reasons.HOSTS_OWN_FILES),
        "process.unprivileged": Support("exact"),
        "process.sandbox-root": Support("stricter", reasons.ACCOUNT_RIGHTS),
        "process.root": Support("exact", reasons.ACCOUNT_IS_NOT_ROOT),
        "process.kernel": Support("exact", reasons.KERNEL_AT_RENDERING),
        "process.seccomp": Support("exact"),
        "macos": Support("unused", reasons.FRAGMENTS),
        "mcp.tools": Support("exact", reasons.MESSAGES),
        "environment.pass": Support("exact", reasons.ACCOUNT_HOME),
        "environment.set": Support("exact"),
        "credentials.cloud": Support("cannot", reasons.CLOSED_HOME),
        "credentials.http": Support("exact", reasons.INSPECTED),
        "credentials.shims": Support("cannot", reasons.BRIDGE_OWNER),
        "workspace": Support("cannot", "the account has no access to the directory of the copy"),
        "user.mapping": Support("cannot", "files belong to the account"),
        "resources.memory": Support("partly", reasons.MEMORY),
        "resources.cpus": Support("exact", reasons.PROCESSORS),
        "resources.pids": Support(
            "exact", "RLIMIT_NPROC of the account: all runs of a project count together"
        ),
        "resources.files": Support("exact"),
        "resources.time": Support("exact", reasons.BY_LAUNCHER),
        "image": Support("unused", reasons.HOST_ROOT),
        "gvisor.engine": Support("unused", reasons.ENGINE_IS_GVISORS),
    },
    preset_limits=reasons.LISTED_LIMITS,
    unreported={
        "calls": "",
        "sockets": reasons.UNSEEN_SOCKETS,
        "hosts": "",
        "bridge": reasons.BRIDGE_OWNER,
        "paths": reasons.UNSEEN_MOUNTS,
    },
    masks_kernel=True,
)
