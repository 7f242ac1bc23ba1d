"""The support of alcless for each feature of a policy."""

from __future__ import annotations

from sandwright.methods.shared import reasons
from sandwright.policy.declaration import Declaration, Support

_RIGHTS = "macOS reports the error only to the program"

DECLARATION = Declaration(
    "alcless",
    {
        "filesystem.read-all": Support("stricter", reasons.RIGHTS),
        "filesystem.read": Support("cannot", "files that every account can read or write stay accessible"),
        "filesystem.write": Support(
            "stricter", "of the project alone, in a copy that is copied back at the end"
        ),
        "filesystem.readonly": Support("exact", "changes there are not copied back"),
        "filesystem.deny": Support("cannot", "files that every account can read or write stay accessible"),
        "filesystem.deny-inside": Support("partly", "as filesystem.deny says"),
        "filesystem.attributes": Support("partly", "as filesystem.deny says"),
        "filesystem.absent": Support("exact", "changes there are not copied back"),
        "filesystem.absent-elsewhere": Support("exact", "changes there are not copied back"),
        "filesystem.protect": Support("exact", "changes there are not copied back"),
        "filesystem.protect-elsewhere": Support("exact", "changes there are not copied back"),
        "filesystem.links": Support("cannot", "a link that is replaced in the copy is copied back"),
        "filesystem.git-links": Support("partly", reasons.GIT_LINKS),
        "filesystem.home": Support("cannot", "programs have the home directory of the account"),
        "filesystem.tmp-private": Support(
            "cannot", "TMPDIR is the account's own, but /tmp is every account's"
        ),
        "filesystem.tmp-shared": Support("exact"),
        "network.none": Support("cannot", "an account has the network of the machine, without a filter"),
        "network.proxy": Support("cannot", "an account has the network of the machine, without a filter"),
        "network.http": Support("cannot", "an account has the network of the machine, without a filter"),
        "network.private": Support("cannot", "an account has the network of the machine, without a proxy"),
        "network.host": Support("exact"),
        "network.unix-sockets": Support("stricter", "sockets belong to their user's session"),
        "network.no-sockets": Support("cannot", "files that every account can read or write stay accessible"),
        "network.other-sockets": Support(
            "cannot", "files that every account can read or write stay accessible"
        ),
        "network.later-sockets": Support(
            "partly", "files that every account can read or write stay accessible"
        ),
        "network.other-later-sockets": Support(
            "partly", "files that every account can read or write stay accessible"
        ),
        "network.abstract-sockets": Support("exact", reasons.MACOS_NONE),
        "network.own-sockets": Support("exact"),
        "network.no-own-sockets": Support("cannot", "an account has no filter"),
        "network.localhost": Support("cannot", "an account has the network of the machine, without a filter"),
        "network.expose": Support("cannot", "an account has the network of the machine, without a filter"),
        "network.ca": Support("exact", reasons.HOSTS_OWN_FILES),
        "process.unprivileged": Support("cannot", "macOS cannot deny set-user-ID programs to an account"),
        "process.sandbox-root": Support("stricter", reasons.ACCOUNT_RIGHTS),
        "process.root": Support("exact", reasons.ACCOUNT_IS_NOT_ROOT),
        "process.kernel": Support("unused", reasons.MACOS_KERNEL),
        "process.seccomp": Support("unused", reasons.SECCOMP_IS_LINUX),
        "macos": Support("unused", reasons.FRAGMENTS),
        "mcp.tools": Support("cannot", reasons.MESSAGES_UNREAD),
        "environment.pass": Support("exact", reasons.ACCOUNT_HOME),
        "environment.set": Support("exact"),
        "credentials.cloud": Support("cannot", reasons.CLOSED_HOME),
        "credentials.http": Support("cannot", "an account has the network of the machine, without a filter"),
        "credentials.shims": Support("cannot", reasons.BRIDGE_OWNER),
        "workspace": Support("cannot", "macOS has no mount namespace in which the copy could be shown"),
        "user.mapping": Support("exact", "files that are copied back belong to the user"),
        "resources.memory": Support("cannot", reasons.MACOS_LIMITS),
        "resources.cpus": Support("cannot", reasons.MACOS_LIMITS),
        "resources.pids": Support("exact", "RLIMIT_NPROC of the account"),
        "resources.files": Support("exact"),
        "resources.time": Support("partly", "by the launcher, unless it is killed"),
        "image": Support("unused", reasons.HOST_ROOT),
        "gvisor.engine": Support("unused", reasons.ENGINE_IS_GVISORS),
    },
    preset_limits=reasons.PROCESSES_OUTSIDE,
    mounts=False,
    other_account=True,
    unreported={
        "calls": "there is no filter",
        "sockets": _RIGHTS,
        "hosts": reasons.UNSEEN_NO_PROXY,
        "bridge": reasons.BRIDGE_OWNER,
        "paths": _RIGHTS,
    },
)
