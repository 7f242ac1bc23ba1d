"""Reasons that several methods give for their support of a policy."""

from __future__ import annotations

ABSTRACT = (
    "abstract names belong to the host's network namespace, and seccomp cannot distinguish them from paths"
)
ACCOUNT_HOME = "except HOME, which is the account's"
ACCOUNT_IS_NOT_ROOT = "the command runs as the account, never as root"
ACCOUNT_RIGHTS = "the account has no sudo and no capabilities"
BRIDGE_OWNER = "the bridge serves only its owner, and the account is another user"
BY_LAUNCHER = "by the launcher"
CLOSED_HOME = "the account has no access to the home directory of the credentials"
COMMAND_IS_ROOT = "the command has UID 0 of the host, without capabilities"
PLACEHOLDER_DIRECTORY = (
    "during a run, an empty directory is a placeholder for the missing path or its missing parent"
)
WORKSPACE = (
    "the engine mounts the host's project, not the copy that the launcher shows in its mount namespace"
)
UNCREATABLE = (
    "during a run, an empty directory is a placeholder for the missing path or its missing parent; with "
    "`filesystem.placeholders: false` the launcher creates names on behalf of programs, but no protected one"
)
DENIED_LATER_ENDS = "if the host creates a denied name during a run, the run ends within milliseconds"
DENIED_LATER_HIDDEN = "if the host creates a denied name during a run, it is hidden within milliseconds"
FIRST_PROCESS = "the init process of the launcher counts as one"
FRAGMENTS = "fragments apply to Seatbelt only"
GIT_LINKS = (
    "a program can create a link in a Git directory, and Git on the host writes through it until the end of "
    "the run removes it"
)
GIT_LINKS_MOVED = (
    "no link can be created in a Git directory, but one may be moved there, and Git on the host writes "
    "through it until the end of the run removes it"
)
HOST_ROOT = "the root is the host's"
HOSTS_AUTHORITIES = (
    "a copy of the host's CA bundle is mounted over the image's at the start of a run, also for Java"
)
HOSTS_OWN_FILES = "the host's files are visible"
KERNEL_AT_RENDERING = "the kernel interfaces that the host had at rendering"
LATER = "sockets that listen at the start of a run are hidden; programs inside can create Unix sockets"
LINKS = "a program that can write the directory of a link can replace it: use the target of the link instead"
LISTED_LIMITS = "this method applies only limits that the policy itself sets"
LISTENING_IS_HIDDEN = "only sockets that listen at the start of a run are hidden"
MESSAGES = "`sandwright run` reads the messages outside the sandbox, whatever the method"
MESSAGES_UNREAD = "its launcher is a script, and starts without `sandwright run`, which reads the messages"
MACOS_KERNEL = "macOS has neither /proc nor /sys"
MACOS_LIMITS = "macOS has no limits for groups of processes"
MACOS_NONE = "macOS has none"
MASKS = "which of these paths are masked depends on the version of the engine or of the node's runtime"
MEMORY = (
    "by a cgroup as root, or where one is delegated; otherwise the launcher watches the memory of all "
    "processes and kills the largest, within milliseconds"
)
PROCESSORS = "by a cgroup, as root or where one is delegated; otherwise refused"
PROCESSES = "RLIMIT_NPROC, which a user namespace counts by itself since Linux 5.14; root's by a cgroup"
NO_UNIX_SOCKETS = "seccomp denies AF_UNIX sockets, except socket pairs"
ENGINE_IS_GVISORS = "it applies to gVisor only"
INSPECTED = "the session runs haproxy, which ends TLS for these hosts, and trusts its authority inside only"
NO_INSPECTION = "the launcher starts the proxy, and no inspecting proxy beside it"
OWN_LOOPBACK = "the sandbox has a separate localhost"
PORTS = "TCP only: the launcher forwards connections between the two loopback interfaces"
PORTS_BY_ROOT = f"{PORTS}; only if started by root, otherwise refused"
PORTS_NOT_OUTER = f"{PORTS}; refused in an outer container, whose network is gVisor's"
PRIVATE_OF_ENGINES = (
    "only with an engine on this machine; others are refused, because their addresses are unknown"
)
PROCESSES_OUTSIDE = "RLIMIT_NPROC may also count processes outside"
RIGHTS = "the account can read what file permissions allow"
SECCOMP_IS_LINUX = "seccomp exists only on Linux"
SOCKETS_BY_PATH = "seccomp cannot distinguish sockets by path, and programs can connect to readable sockets"
SUPERVISED = "the launcher connects on behalf of programs, to their own sockets and to the listed ones"
SUPERVISED_LINKS = "the launcher creates links on behalf of programs, but none in a Git directory"
SUPERVISED_PORTS = "the launcher connects on behalf of programs, to these ports on 127.0.0.1 and ::1"
UNCOVERED = "a mount needs an existing path, and placeholders are created only in the project"
APPEARS = f"{UNCOVERED}; if such a name is created, the next run does not start until you have reviewed it"

UNSEEN_MOUNTS = (
    "the kernel reports the error only to the program; "
    "`sandwright explain read PATH` shows the rule that decides"
)
UNSEEN_PROXY = "the proxy runs in a container, which is removed together with its log"
UNSEEN_RUNTIME = "the runtime loads the filter, and the kernel reports the error only to the program"
UNSEEN_SOCKETS = "the filter cannot distinguish them from other sockets"
UNSEEN_HIDDEN = "sockets of the host are covered by mounts"
UNSEEN_NO_BRIDGE = "there is no bridge"
UNSEEN_NO_PROXY = "there is no proxy"
