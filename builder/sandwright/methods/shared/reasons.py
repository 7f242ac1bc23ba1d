"""Reasons that several methods give for what they make of a policy."""

from __future__ import annotations

ABSTRACT = (
    "they belong to the network, which is the host's, and seccomp can't tell them from those with a path"
)
ACCOUNT_HOME = "but HOME, which is the account's"
ACCOUNT_IS_NOT_ROOT = "the command is the account's, never root's"
ACCOUNT_RIGHTS = "the account has no sudo, and no capability"
BRIDGE_OWNER = "the bridge serves its owner only, who is not the account"
BY_LAUNCHER = "by the launcher"
CLOSED_HOME = "their owner's home is closed to the account"
COMMAND_IS_ROOT = "the command is uid 0 of the host, without capabilities"
COVERED = "during a run an empty directory stands in for the missing path, or for its missing parent"
FIRST_PROCESS = "the first process, which `launch` brings, is one of them"
FRAGMENTS = "fragments are Seatbelt's"
HOST_ROOT = "the root is the host's"
HOSTS_AUTHORITIES = (
    "a copy of the host's bundle lies over the image's, made when the run starts; Java reads another"
)
HOSTS_OWN_FILES = "the host's own files are seen"
KERNEL_AT_RENDERING = "what of it the host had when this was rendered"
LATER = "what listens when a run starts is hidden; programs inside may have Unix sockets of their own"
LINKS = "a mount holds what a link leads to, and whoever can write its directory can replace the link"
LISTENING_IS_HIDDEN = "what listens when a run starts is hidden, and nothing else"
MACOS_KERNEL = "macOS has neither /proc nor /sys"
MACOS_LIMITS = "macOS has no limit for several processes together"
MACOS_NONE = "macOS has none"
MASKS = "the version of the engine, or of the node's runtime, decides which of these paths it hides"
NO_CGROUP = "a limit for all processes together needs a control group, which this method doesn't make"
NO_UNIX_SOCKETS = "seccomp refuses AF_UNIX sockets, except pairs"
OUTER_IS_GVISORS = "it is gVisor's"
OWN_LOOPBACK = "the sandbox has a localhost of its own"
PORTS = "over TCP: the launcher carries each connection between the two loopbacks"
PORTS_BY_ROOT = f"{PORTS}; where root starts it: others are refused"
PORTS_NOT_OUTER = f"{PORTS}; refused in a container of its own, whose network is gVisor's"
PRIVATE_OF_ENGINES = (
    "where the engine is on this machine: others are refused, as nobody knows their addresses"
)
PROCESSES_OUTSIDE = "RLIMIT_NPROC may also count processes outside"
RIGHTS = "the account reads what its rights allow"
SECCOMP_IS_LINUX = "seccomp is Linux's"
SOCKETS_BY_PATH = "seccomp can't tell sockets by path, and a readable socket can be connected to"
SUPERVISED = "the launcher connects for programs inside, to their own and to those listed"
UNCOVERED = "a mount needs an existing path, and no placeholder is made outside the project"
APPEARS = f"{UNCOVERED}; once such a name is made, no further run starts until you have looked"
