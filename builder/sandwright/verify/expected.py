"""The expected answer to each attempt, by claim and method. It is written down, never derived from artifacts.

A row is a claim about one kind of attempt, with the answers that confirm it. The answers apply to all methods
except those that declare different ones with a reason (`contract.Method.expect`). `ok` means success; the
others are errno names (errno(3)) or signals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sandwright.methods import registry
from sandwright.methods.properties import Answers


@dataclass(frozen=True)
class Expected:
    """The answers that confirm a claim. None if the method cannot enforce it; nothing is attempted then.

    `reason` explains why the answers of a method differ; `like` is the claim whose answers apply if a method
    declares none for this claim.
    """

    claim: str
    feature: str
    about: str
    answers: tuple[str, ...]
    reason: str = ""
    like: str = ""


@dataclass(frozen=True)
class _Row:
    """`like` is the claim whose answers apply if a method declares none for this claim."""

    feature: str
    about: str
    answers: str
    like: str = ""


def expected(claim: str, method: str) -> Expected:
    """The expectation of a claim for a method. Raise KeyError for an unknown claim."""
    row = _TABLE[claim]
    method_answers = registry.expected(method)
    answers, reason = method_answers.get(claim) or method_answers.get(row.like) or Answers(row.answers, "")
    return Expected(claim, row.feature, row.about, tuple(answers.split()), reason)


def default_expectation(claim: str) -> Expected:
    """The expectation of a claim for all other methods. Raise KeyError for an unknown claim."""
    row = _TABLE[claim]
    return Expected(claim, row.feature, row.about, tuple(row.answers.split()), like=row.like)


def claims() -> Iterator[str]:
    """All claims."""
    return iter(_TABLE)


_TABLE: Mapping[str, _Row] = {
    # Attempts that succeed.
    "works": _Row("", "the policy allows it", "ok"),
    "fifo.make": _Row("", "files other than devices can be created", "ok"),
    # Files
    "readonly.write": _Row(
        "filesystem.readonly",
        "the path is on a read-only mount",
        "EROFS",
    ),
    "readonly.attributes": _Row(
        "filesystem.attributes",
        "modes and times of a read-only path cannot be changed",
        "EROFS",
        like="readonly.write",
    ),
    "inside.write": _Row(
        "filesystem.readonly",
        "a read-only path below a writable one is on a read-only mount",
        "EROFS",
        like="readonly.write",
    ),
    "inside.link": _Row(
        "filesystem.readonly", "hard links across mounts are impossible", "EXDEV", like="link.across"
    ),
    "inside.entry": _Row(
        "filesystem.deny-inside",
        "entries of a denied directory below a writable path do not exist inside",
        "ENOENT",
        like="hidden.entry",
    ),
    "inside.create": _Row(
        "filesystem.deny-inside",
        "entries cannot be created in a denied directory below a writable path",
        "EROFS",
        like="hidden.create",
    ),
    "listed": _Row("filesystem.read", "a readable directory can be listed", "ok"),
    "readonly.move": _Row(
        "filesystem.readonly",
        "a restricted path is a mount point, which cannot be renamed, replaced or removed",
        "EBUSY",
    ),
    "commits": _Row("filesystem.protect", "other files of Git are writable, so that commits work", "ok"),
    "git.symlink": _Row("filesystem.git-links", "links cannot be created in a Git directory", "EPERM"),
    "git.move": _Row(
        "filesystem.git-links",
        "a Git directory is a mount, so that rename and link from outside fail",
        "EXDEV",
    ),
    "covered.write": _Row(
        "filesystem.protect",
        "a file of Git that must stay empty is on a read-only mount without write permission",
        "EACCES EROFS",
    ),
    "covered.make": _Row(
        "filesystem.protect",
        "there is a placeholder for the missing protected name",
        "EEXIST",
    ),
    "covered.replace": _Row(
        "filesystem.protect",
        "the placeholder for the missing protected name is a mount point",
        "EISDIR EBUSY EXDEV",
    ),
    "covered.move": _Row(
        "filesystem.protect",
        "the placeholder for the missing protected name cannot be renamed",
        "EBUSY",
        like="readonly.move",
    ),
    "covered.inside": _Row(
        "filesystem.protect",
        "the placeholder for the missing protected name is empty and read-only",
        "EACCES EROFS",
    ),
    "hidden.entry": _Row(
        "filesystem.deny",
        "entries of a denied directory do not exist inside",
        "ENOENT",
    ),
    "hidden.attributes": _Row(
        "filesystem.attributes",
        "attributes of entries in a denied directory are hidden",
        "ENOENT",
        like="hidden.entry",
    ),
    "hidden.list": _Row(
        "filesystem.deny",
        "a denied directory is empty",
        "ok",
    ),
    "hidden.create": _Row(
        "filesystem.deny",
        "entries cannot be created in a denied directory",
        "EROFS",
    ),
    "hidden.file": _Row(
        "filesystem.deny",
        "a denied file is covered by a device on a `nodev` mount or by a file without permissions",
        "EACCES",
    ),
    "hidden.file.write": _Row(
        "filesystem.deny",
        "a denied file is covered by a device on a `nodev` mount or by a file without permissions",
        "EACCES",
    ),
    "hidden.kind": _Row(
        "filesystem.deny",
        "a denied file is not a directory",
        "ENOTDIR",
    ),
    "foreign": _Row("filesystem.read-all", "only listed paths of the host exist", "ENOENT"),
    "image.own": _Row(
        "filesystem.read-all",
        "a path denied on the host only shows the image's file, if there is one, never the host's",
        "ENOENT ok",
    ),
    "reserved.read": _Row(
        "filesystem.deny",
        "sandwright's state does not exist inside or is unreadable",
        "ENOENT EACCES",
    ),
    "reserved.write": _Row(
        "filesystem.readonly",
        "entries cannot be created in sandwright's state and installation",
        "EROFS ENOENT EACCES",
    ),
    "image.file": _Row(
        "filesystem.deny",
        "a denied file is not in the image or is covered by a file without permissions",
        "EACCES ENOENT",
    ),
    "image.entry": _Row(
        "filesystem.deny", "what lies in a denied directory of the image is not there", "ENOENT"
    ),
    "image.create": _Row(
        "filesystem.deny",
        "entries cannot be created in a denied directory of the image",
        "EROFS ENOENT",
        like="hidden.create",
    ),
    "absent": _Row(
        "filesystem.deny",
        "a missing denied path does not exist inside",
        "ENOENT",
    ),
    "absent.create": _Row(
        "filesystem.deny",
        "a missing denied path cannot be created",
        "EROFS",
    ),
    "home.write": _Row("filesystem.home", "the home directory is writable", "ok"),
    "tmp.write": _Row("filesystem.tmp-private", "the temporary directory is writable", "ok"),
    "tmp.hidden": _Row("filesystem.tmp-private", "the host's temporary files do not exist inside", "ENOENT"),
    "device.none": _Row("", "devices of the host do not exist inside", "ENOENT"),
    "device.seen": _Row("", "devices of the host are not visible", "ENOENT", like="device.none"),
    "device.own": _Row(
        "",
        "devices of the host do not exist inside",
        "ENOENT",
    ),
    "device.make": _Row("process.unprivileged", "device nodes cannot be created", "EPERM"),
    # Links and renames
    "exchange": _Row(
        "filesystem.readonly",
        "a restricted path is a mount point, which cannot be exchanged",
        "EBUSY",
    ),
    "link.denied": _Row(
        "filesystem.deny", "a denied file cannot get another name", "ENOENT", like="hidden.entry"
    ),
    "link.across": _Row("filesystem.readonly", "hard links across mounts are impossible", "EXDEV"),
    # Processes
    "privilege.none": _Row("process.unprivileged", "there is no permission for it", "EPERM"),
    "privilege.bound": _Row("process.unprivileged", "capabilities cannot be gained", "ok"),
    "inside": _Row("", "the namespaces differ from the host's", "ok"),
    "outside.list": _Row("process.kernel", "processes outside the sandbox are not listed", "ok"),
    "outside.process": _Row("", "processes outside the sandbox do not exist inside", "ESRCH"),
    # System calls
    "filtered": _Row(
        "process.seccomp", "seccomp denies the call before the kernel checks its arguments", "EPERM"
    ),
    "filtered.nosys": _Row(
        "process.seccomp",
        "seccomp reports that the call does not exist",
        "ENOSYS",
    ),
    "filtered.invalid": _Row("process.seccomp", "seccomp reports that the call is not supported", "EINVAL"),
    "mode.asked": _Row("", "with another mode, the kernel is called and finds no file", "ENOENT EBADF"),
    "terminal.type": _Row(
        "process.seccomp",
        "seccomp denies the call before the kernel checks its arguments",
        "EPERM",
        like="filtered",
    ),
    "terminal.make": _Row("", "a pseudo-terminal can be created", "ok"),
    "foreign-abi": _Row(
        "process.seccomp",
        "system calls of the 32-bit ABI end the process",
        "SIGSYS",
    ),
    "foreign-abi.x32": _Row(
        "process.seccomp",
        "system calls of the x32 ABI end the process",
        "SIGSYS",
    ),
    "personality.ask": _Row(
        "process.seccomp",
        "the execution domain can be queried",
        "ok",
    ),
    "filtered.family": _Row("process.seccomp", "seccomp denies the socket family", "EPERM"),
    "family.six": _Row("", "IPv6 sockets can be created", "ok", like="net.socket"),
    "filtered.netlink": _Row(
        "process.seccomp",
        "NETLINK_ROUTE is the only netlink protocol",
        "EPROTONOSUPPORT",
    ),
    "privilege.identity": _Row(
        "process.unprivileged",
        "there is no permission to change user IDs or owners",
        "EPERM",
    ),
    "privilege.enter": _Row(
        "process.unprivileged",
        "there is no permission to enter another namespace",
        "EPERM",
    ),
    "root.inside": _Row(
        "process.root",
        "the user namespace differs from the host's",
        "ok",
    ),
    "privilege.trace": _Row("process.seccomp", "there is no permission for other processes", "EPERM"),
    "outside.directory": _Row("", "/proc has no directory of processes outside the sandbox", "ENOENT"),
    "kernel.write": _Row(
        "",
        "kernel settings are on a read-only mount",
        "EROFS",
    ),
    "kernel.rights": _Row(
        "",
        "kernel settings belong to root or are on a read-only mount",
        "EACCES EROFS",
    ),
    "kernel.cgroup-rights": _Row("", "cgroups belong to root or are not mounted", "EACCES EROFS ENOENT"),
    "kernel.cgroup": _Row(
        "",
        "cgroups start no program",
        "EROFS ENOENT",
    ),
    "kernel.hidden": _Row(
        "process.kernel",
        "it is covered by an empty directory, the null device or a device that cannot be opened",
        "ok EACCES ENOENT",
    ),
    "kernel.interface": _Row(
        "process.kernel", "network devices of the host do not exist inside", "ENOENT EACCES"
    ),
    "kernel.memory": _Row(
        "",
        "kernel memory belongs to root and needs a capability, or an empty file covers it",
        "ok EACCES EPERM ENOENT",
    ),
    "kernel.absent": _Row("", "this kernel does not have it", "ENOENT"),
    "kernel.no-order": _Row("", "this kernel does not have the interface", "ENOENT"),
    "process.environ": _Row("", "variables of the init process", "ok"),
    "account.closed": _Row(
        "filesystem.read-all", "a file that no rule denies is closed by its owner's rights alone", "EACCES"
    ),
    # Network
    "net.socket": _Row("", "IP sockets can be created", "ok"),
    "net.own": _Row("network.none", "the sandbox has a separate loopback interface", "ok"),
    "net.interfaces": _Row("network.none", "network interfaces of the host do not exist inside", "ok"),
    "net.loopback": _Row(
        "network.none", "nothing listens on the sandbox's loopback interface", "ECONNREFUSED"
    ),
    "net.datagram": _Row("network.none", "sent to the sandbox's loopback interface", "ok ECONNREFUSED"),
    "net.outside": _Row(
        "network.none",
        "there is no way out",
        "ENETUNREACH",
    ),
    "net.behind": _Row(
        "network.proxy",
        "a network with only the proxy has no route to the outside",
        "ENETUNREACH EHOSTUNREACH EADDRNOTAVAIL ETIMEDOUT",
    ),
    "net.behind.datagram": _Row(
        "network.proxy", "packets there get no answer", "ok ENETUNREACH EHOSTUNREACH"
    ),
    "net.unexposed": _Row("network.expose", "no program of the host reaches an unlisted port", "ETIMEDOUT"),
    "unix.unlisted": _Row(
        "network.no-sockets",
        "the socket is not listed",
        "EPERM",
    ),
    "unix.later": _Row(
        "network.later-sockets",
        "the socket was created in a listed directory after rendering",
        "EPERM",
    ),
    "unix.written": _Row(
        "network.later-sockets",
        "the socket of the host was created in a writable directory after rendering",
        "EPERM",
    ),
    "unix.own": _Row("network.own-sockets", "bind and connect work in a writable directory", "ok"),
    "unix.own.temporary": _Row(
        "network.own-sockets", "it is bound and connected to in the temporary directory", "ok"
    ),
    "unix.own.abstract": _Row("network.own-sockets", "bind and connect work with an abstract name", "ok"),
    "unix.none": _Row(
        "network.no-own-sockets", "seccomp denies Unix sockets, except for socket pairs", "EPERM"
    ),
    "unix.host": _Row(
        "network.no-sockets",
        "without own sockets, as with the host's network, seccomp denies all Unix sockets except pairs",
        "EPERM",
    ),
    "unix.abstract": _Row(
        "network.no-sockets",
        "a socket without a path",
        "EPERM",
    ),
    # Environment
    "variable.none": _Row("environment.pass", "the variable is not passed", "ENOENT"),
    "variable.image": _Row(
        "environment.pass",
        "the variable of the host is not passed: it is unset, or set by the image",
        "ENOENT ok",
    ),
    # Secrets
    "shim.token": _Row(
        "credentials.shims", "the program on the host runs, with the sandbox's token and not the host's", "ok"
    ),
    "shim.refused": _Row(
        "credentials.shims", "the bridge refuses the command, and the shim exits with 126", "ok"
    ),
    "shim.gone": _Row("credentials.shims", "the shim finds no bridge and exits with 125", "ok"),
    "secret.nowhere": _Row("credentials.shims", "the search finds nothing", "ok"),
    "cloud.read": _Row("credentials.cloud", "credentials of a cloud account are readable", "ok"),
    "cloud.write": _Row(
        "credentials.cloud", "credentials of a cloud account are on a read-only mount", "EROFS"
    ),
    "cloud.hidden": _Row(
        "credentials.cloud",
        "entries of an unlisted directory do not exist inside",
        "ENOENT",
    ),
    "cloud.hidden.file": _Row(
        "credentials.cloud",
        "an unlisted file is covered by a device on a `nodev` mount or by a file without permissions",
        "EACCES",
    ),
    # Limits
    "limit.core": _Row("", "the limit for core files is 0 and cannot be raised", "ok"),
    "limit.files": _Row("resources.files", "the limit of open files is exceeded", "EMFILE"),
    "limit.pids": _Row(
        "resources.pids",
        "one process too many",
        "EAGAIN",
    ),
    "limit.memory": _Row(
        "resources.memory",
        "a process that exceeds the memory limit is killed",
        "SIGKILL ENOMEM",
    ),
}
