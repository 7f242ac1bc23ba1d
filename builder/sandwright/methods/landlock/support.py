"""What landlock makes of each feature of a policy."""

from __future__ import annotations

from sandwright.methods.landlock.closed import closing_rules
from sandwright.methods.shared import reasons
from sandwright.policy.declaration import Declaration, Support

INSIDE = "Landlock's rules grant, and take nothing away from a directory that may be written"
PORTS = "Landlock knows ports and no addresses"
NO_SOCKETS = "sockets of AF_UNIX are refused, except pairs, as seccomp can't tell them by path"

DECLARATION = Declaration(
    "landlock",
    {
        "filesystem.read-all": Support(
            "stricter",
            "a directory in which something is denied can't be listed, nor what is made there later read",
        ),
        "filesystem.read": Support("exact"),
        "filesystem.write": Support("exact"),
        "filesystem.readonly": Support("cannot", INSIDE),
        "filesystem.deny": Support("exact"),
        "filesystem.deny-inside": Support("cannot", INSIDE),
        "filesystem.attributes": Support(
            "cannot",
            "Landlock holds contents: names can be tried, sizes and times seen and watched, "
            "modes and times of one's own files changed",
        ),
        "filesystem.absent": Support("cannot", INSIDE),
        "filesystem.absent-elsewhere": Support("cannot", INSIDE),
        "filesystem.protect": Support("cannot", INSIDE),
        "filesystem.protect-elsewhere": Support("partly", f"as filesystem.protect: {INSIDE}"),
        "filesystem.links": Support("cannot", reasons.LINKS),
        "filesystem.tmp-private": Support(
            "stricter", "a directory of the run's own in TMPDIR; /tmp can't be used"
        ),
        "filesystem.tmp-shared": Support("exact"),
        "network.none": Support("stricter", "no localhost either, and no UDP"),
        "network.proxy": Support("cannot", f"{PORTS}: at the proxy's port others could be reached, too"),
        "network.host": Support("exact"),
        "network.unix-sockets": Support("stricter", NO_SOCKETS),
        "network.no-sockets": Support("exact", NO_SOCKETS),
        "network.other-sockets": Support("exact", NO_SOCKETS),
        "network.later-sockets": Support("exact", NO_SOCKETS),
        "network.other-later-sockets": Support("exact", NO_SOCKETS),
        "network.abstract-sockets": Support("exact", NO_SOCKETS),
        "network.private": Support("cannot", "there is no way to the proxy"),
        "network.own-sockets": Support("stricter", reasons.NO_UNIX_SOCKETS),
        "network.no-own-sockets": Support("exact", reasons.NO_UNIX_SOCKETS),
        "network.ca": Support("exact", reasons.HOSTS_OWN_FILES),
        "network.localhost": Support("cannot", f"{PORTS}: each port is open at all addresses"),
        "network.expose": Support(
            "cannot", f"{PORTS}: others than the host's localhost would reach the server, too"
        ),
        "process.unprivileged": Support("exact"),
        "process.privileged": Support("stricter", "no program gains rights, and root has no capabilities"),
        "process.root": Support("partly", reasons.COMMAND_IS_ROOT),
        "process.kernel": Support(
            "cannot",
            "without a namespace of processes /proc is the host's, with the arguments of all processes",
        ),
        "process.seccomp": Support("stricter", "what Landlock doesn't hold is refused besides"),
        "macos": Support("unused", reasons.FRAGMENTS),
        "environment.pass": Support("exact"),
        "environment.set": Support("exact"),
        "credentials.cloud": Support("exact"),
        "credentials.shims": Support("cannot", "the bridge is a Unix socket"),
        "user.mapping": Support("exact"),
        "resources.memory": Support("cannot", reasons.NO_CGROUP),
        "resources.cpus": Support("cannot", reasons.NO_CGROUP),
        "resources.pids": Support(
            "cannot", "RLIMIT_NPROC counts all processes of the user, and root's not at all"
        ),
        "resources.files": Support("exact"),
        "resources.time": Support("exact", reasons.BY_LAUNCHER),
        "image": Support("unused", reasons.HOST_ROOT),
        "outer": Support("unused", reasons.OUTER_IS_GVISORS),
    },
    mounts=False,
    preset_limits=reasons.PROCESSES_OUTSIDE,
    closes=frozenset(name for rule in closing_rules(network=False, listens=False) for name in rule.names),
    unseen={
        "calls": "",
        "sockets": reasons.UNSEEN_NO_SOCKETS,
        "hosts": reasons.UNSEEN_NO_PROXY,
        "bridge": reasons.UNSEEN_NO_BRIDGE,
        "paths": reasons.UNSEEN_MOUNTS,
    },
)
