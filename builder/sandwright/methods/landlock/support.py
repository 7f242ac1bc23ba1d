"""The support of landlock for each feature of a policy."""

from __future__ import annotations

from sandwright.methods.shared import reasons
from sandwright.policy.declaration import Declaration, Support
from sandwright.seccomp.closing import closing_rules

INSIDE = "Landlock rules only grant access: they cannot restrict a path inside a writable directory"
LINKED_LATER = (
    "for files that exist when the run starts; a file that the host later renames to a denied name is open"
)
PORTS = "Landlock rules contain ports but no addresses"
NO_SOCKETS = (
    "seccomp cannot distinguish AF_UNIX sockets by path, so it denies all of them, except socket pairs"
)

DECLARATION = Declaration(
    "landlock",
    {
        "filesystem.read-all": Support(
            "stricter",
            "a directory with a denied entry cannot be listed, and files created in it later are unreadable",
        ),
        "filesystem.read": Support("exact"),
        "filesystem.write": Support("exact"),
        "filesystem.readonly": Support("cannot", INSIDE),
        "filesystem.deny": Support("exact", LINKED_LATER),
        "filesystem.deny-inside": Support("cannot", INSIDE),
        "filesystem.attributes": Support(
            "cannot",
            "Landlock protects contents only: names, sizes and times are visible, and the modes and times of "
            "the user's own files can be changed",
        ),
        "filesystem.absent": Support("cannot", INSIDE),
        "filesystem.absent-elsewhere": Support("cannot", INSIDE),
        "filesystem.protect": Support("cannot", INSIDE),
        "filesystem.protect-elsewhere": Support("partly", f"as filesystem.protect: {INSIDE}"),
        "filesystem.links": Support("cannot", reasons.LINKS),
        "filesystem.git-links": Support("partly", reasons.GIT_LINKS),
        "filesystem.home": Support("cannot", "Landlock puts nothing in the place of a directory"),
        "filesystem.tmp-private": Support(
            "stricter", "a separate directory, to which TMPDIR points; /tmp is not accessible"
        ),
        "filesystem.tmp-shared": Support("exact"),
        "network.none": Support("stricter", "no localhost and no UDP either"),
        "network.proxy": Support("exact", reasons.SUPERVISED_PORTS),
        "network.host": Support("exact"),
        "network.unix-sockets": Support(
            "stricter", "only sockets that exist when the run starts; none with network.mode: host"
        ),
        "network.no-sockets": Support("exact", reasons.SUPERVISED),
        "network.other-sockets": Support("exact", reasons.SUPERVISED),
        "network.later-sockets": Support("exact", reasons.SUPERVISED),
        "network.other-later-sockets": Support("exact", reasons.SUPERVISED),
        "network.abstract-sockets": Support("exact", NO_SOCKETS),
        "network.http": Support("exact", reasons.INSPECTED),
        "network.private": Support("exact"),
        "network.own-sockets": Support("stricter", "only by path: abstract names are the host's"),
        "network.no-own-sockets": Support("exact", reasons.NO_UNIX_SOCKETS),
        "network.ca": Support("exact", reasons.HOSTS_OWN_FILES),
        "network.localhost": Support("exact", reasons.SUPERVISED_PORTS),
        "network.expose": Support("cannot", f"{PORTS}: other machines would reach the server, too"),
        "process.unprivileged": Support("exact"),
        "process.sandbox-root": Support("stricter", "no program gains privileges; root has no capabilities"),
        "process.root": Support("partly", reasons.COMMAND_IS_ROOT),
        "process.kernel": Support(
            "cannot",
            "without a PID namespace, /proc is the host's and shows the arguments of all processes",
        ),
        "process.seccomp": Support("stricter", "seccomp denies calls that Landlock does not restrict"),
        "macos": Support("unused", reasons.FRAGMENTS),
        "mcp.tools": Support("exact", reasons.MESSAGES),
        "environment.pass": Support("exact"),
        "environment.set": Support(
            "exact", "a value that begins with $TMP names the temporary directory of the run"
        ),
        "credentials.cloud": Support("exact"),
        "credentials.http": Support("exact", reasons.INSPECTED),
        "credentials.shims": Support("cannot", "the launcher does not mount them"),
        "workspace": Support("exact"),
        "user.mapping": Support("exact"),
        "resources.memory": Support("partly", reasons.MEMORY),
        "resources.cpus": Support("exact", reasons.PROCESSORS),
        "resources.pids": Support(
            "cannot", "RLIMIT_NPROC counts all processes of the user, and root's not at all"
        ),
        "resources.files": Support("exact"),
        "resources.time": Support("exact", reasons.BY_LAUNCHER),
        "image": Support("unused", reasons.HOST_ROOT),
        "gvisor.engine": Support("unused", reasons.ENGINE_IS_GVISORS),
    },
    mounts=False,
    preset_limits=reasons.LISTED_LIMITS,
    extra_denied_syscalls=frozenset(
        name for rule in closing_rules(network=False, listens=False) for name in rule.names
    ),
    unreported={
        "calls": "",
        "sockets": "",
        "hosts": "",
        "bridge": reasons.UNSEEN_NO_BRIDGE,
        "paths": reasons.UNSEEN_MOUNTS,
    },
)
