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
DENIED_LATER_ENDS = "a denied name that the host makes during a run ends it, within milliseconds"
DENIED_LATER_HIDDEN = "a denied name that the host makes during a run is hidden, within milliseconds"
FIRST_PROCESS = "the first process, which `launch` brings, is one of them"
FRAGMENTS = "fragments are Seatbelt's"
GIT_LINKS = (
    "a program can make a link in a Git directory: the end of the run removes it, and until then Git on the "
    "host writes through it"
)
HOST_ROOT = "the root is the host's"
HOSTS_AUTHORITIES = (
    "a copy of the host's bundle lies over the image's, made when the run starts, and one for Java"
)
HOSTS_OWN_FILES = "the host's own files are seen"
KERNEL_AT_RENDERING = "what of it the host had when this was rendered"
LATER = "what listens when a run starts is hidden; programs inside may have Unix sockets of their own"
LINKS = (
    "a program that can write a link's directory can replace the link: name the target of the link instead"
)
LISTENING_IS_HIDDEN = "only sockets that listen when a run starts are hidden"
MACOS_KERNEL = "macOS has neither /proc nor /sys"
MACOS_LIMITS = "macOS has no limit for several processes together"
MACOS_NONE = "macOS has none"
MASKS = "the version of the engine, or of the node's runtime, decides which of these paths it hides"
NO_CGROUP = "a limit for all processes together needs a control group, which this method doesn't make"
NO_UNIX_SOCKETS = "seccomp refuses AF_UNIX sockets, except pairs"
ENGINE_IS_GVISORS = "it is gVisor's"
OWN_LOOPBACK = "the sandbox has a separate localhost"
PORTS = "over TCP: the launcher carries each connection between the two loopbacks"
PORTS_BY_ROOT = f"{PORTS}; where root starts it: others are refused"
PORTS_NOT_OUTER = f"{PORTS}; refused in a container of its own, whose network is gVisor's"
PRIVATE_OF_ENGINES = (
    "where the engine is on this machine: others are refused, because their addresses are unknown"
)
PROCESSES_OUTSIDE = "RLIMIT_NPROC may also count processes outside"
RIGHTS = "the account reads what its rights allow"
SECCOMP_IS_LINUX = "seccomp is Linux's"
SOCKETS_BY_PATH = "seccomp can't tell sockets by path, and a readable socket can be connected to"
SUPERVISED = "the launcher connects for programs inside, to their own and to those listed"
SUPERVISED_LINKS = "the launcher makes links for programs inside, and none in a Git directory"
SUPERVISED_PORTS = "the launcher connects for programs inside, to 127.0.0.1 and ::1 at these ports"
UNCOVERED = "a mount needs an existing path, and no placeholder is made outside the project"
APPEARS = f"{UNCOVERED}; once such a name is made, no further run starts until you have looked"

UNSEEN_MOUNTS = "the kernel answers only the program; `sandwright explain read PATH` shows the deciding rule"
UNSEEN_PROXY = "the proxy is in a container of the engine, which is removed with its log"
UNSEEN_RUNTIME = "the runtime loads the filter, and the kernel answers only the program"
UNSEEN_SOCKETS = "the filter can't distinguish them from others"
UNSEEN_HIDDEN = "sockets of the host are covered by mounts"
UNSEEN_NO_BRIDGE = "there is no bridge"
UNSEEN_NO_PROXY = "there is no proxy"
