"""What must come of each attempt, by claim and method: written down, never taken from what is rendered.

A row is a claim: what a policy's feature promises of one kind of attempt, with the answers that show it. The
answers hold for all methods but those that expect others, with the reason (`contract.Method.expect`). `ok`
is that it worked; all others are errors by their names (errno(3)) or signals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sandwright.methods import registry
from sandwright.methods.properties import Answers


@dataclass(frozen=True)
class Expected:
    """The answers that show a claim; none where the method can't hold it, and nothing is attempted.

    `reason` says why a method has others than the rest; `like` is the claim whose answers are taken where a
    method has none for this one.
    """

    claim: str
    feature: str
    about: str
    answers: tuple[str, ...]
    reason: str = ""
    like: str = ""


@dataclass(frozen=True)
class _Row:
    """`like` is the claim whose answers are taken where a method expects none of its own for this one."""

    feature: str
    about: str
    answers: str
    like: str = ""


def expected(claim: str, method: str) -> Expected:
    """What a claim expects of a method. Raise KeyError for a claim that is in no row."""
    row = _TABLE[claim]
    method_answers = registry.expected(method)
    answers, reason = method_answers.get(claim) or method_answers.get(row.like) or Answers(row.answers, "")
    return Expected(claim, row.feature, row.about, tuple(answers.split()), reason)


def default_expectation(claim: str) -> Expected:
    """What a claim expects where no method says otherwise. Raise KeyError for a claim that is in no row."""
    row = _TABLE[claim]
    return Expected(claim, row.feature, row.about, tuple(row.answers.split()), like=row.like)


def claims() -> Iterator[str]:
    """All claims there are."""
    return iter(_TABLE)


_TABLE: Mapping[str, _Row] = {
    # What works.
    "works": _Row("", "what the policy allows works", "ok"),
    "fifo.make": _Row("", "what is no device can be made", "ok"),
    # Files
    "readonly.write": _Row(
        "filesystem.readonly",
        "what may only be read is on a read-only mount",
        "EROFS",
    ),
    "readonly.attributes": _Row(
        "filesystem.attributes",
        "modes and times of what may only be read can't be changed",
        "EROFS",
        like="readonly.write",
    ),
    "inside.write": _Row(
        "filesystem.readonly",
        "what may only be read inside what may be written is on a read-only mount",
        "EROFS",
        like="readonly.write",
    ),
    "inside.link": _Row(
        "filesystem.readonly", "no second name on another mount", "EXDEV", like="link.across"
    ),
    "inside.entry": _Row(
        "filesystem.deny-inside",
        "what lies in a denied directory inside a writable one is not there",
        "ENOENT",
        like="hidden.entry",
    ),
    "inside.create": _Row(
        "filesystem.deny-inside",
        "nothing can be made in a denied directory inside a writable one",
        "EROFS",
        like="hidden.create",
    ),
    "listed": _Row("filesystem.read", "a directory that may be read can be listed", "ok"),
    "readonly.move": _Row(
        "filesystem.readonly",
        "a restricted path is a mount point, and none is renamed, replaced or removed",
        "EBUSY",
    ),
    "commits": _Row("filesystem.protect", "Git's other files can be written, as commits do", "ok"),
    "git.symlink": _Row("filesystem.git-links", "no link is made in a Git directory", "EPERM"),
    "git.move": _Row(
        "filesystem.git-links",
        "a Git directory is a mount, to which nothing is moved and no other name of a file leads",
        "EXDEV",
    ),
    "covered.write": _Row(
        "filesystem.protect",
        "a file of Git's that must not say anything is on a read-only mount, and nobody may write it",
        "EACCES EROFS",
    ),
    "covered.make": _Row(
        "filesystem.protect",
        "something is in the place of a protected name that doesn't exist",
        "EEXIST",
    ),
    "covered.replace": _Row(
        "filesystem.protect",
        "a directory that is a mount point is in the place of a protected name that doesn't exist",
        "EISDIR EBUSY EXDEV",
    ),
    "covered.inside": _Row(
        "filesystem.protect",
        "what lies in the place of a protected name that doesn't exist is empty, and stays so",
        "EACCES EROFS",
    ),
    "hidden.entry": _Row(
        "filesystem.deny",
        "what lies in a denied directory is not there",
        "ENOENT",
    ),
    "hidden.attributes": _Row(
        "filesystem.attributes",
        "what lies in a denied directory has no attributes that are seen",
        "ENOENT",
        like="hidden.entry",
    ),
    "hidden.list": _Row(
        "filesystem.deny",
        "a denied directory has nothing in it",
        "ok",
    ),
    "hidden.create": _Row(
        "filesystem.deny",
        "nothing can be made in a denied directory",
        "EROFS",
    ),
    "hidden.file": _Row(
        "filesystem.deny",
        "over a denied file lies a device on a mount without devices, or a file without rights",
        "EACCES",
    ),
    "hidden.file.write": _Row(
        "filesystem.deny",
        "over a denied file lies a device on a mount without devices, or a file without rights",
        "EACCES",
    ),
    "hidden.kind": _Row(
        "filesystem.deny",
        "a denied file is no directory",
        "ENOTDIR",
    ),
    "foreign": _Row("filesystem.read-all", "nothing of the host is there but what is listed", "ENOENT"),
    "image.own": _Row(
        "filesystem.read-all",
        "what is denied of the host alone is the image's own file, if it has one, and never the host's",
        "ENOENT ok",
    ),
    "reserved.read": _Row(
        "filesystem.deny",
        "sandwright's own state is not there, or can't be read",
        "ENOENT EACCES",
    ),
    "reserved.write": _Row(
        "filesystem.readonly",
        "where sandwright keeps its state and is loaded from nothing can be made",
        "EROFS ENOENT EACCES",
    ),
    "image.file": _Row(
        "filesystem.deny",
        "a denied file is not in the image, or hidden by one without rights",
        "EACCES ENOENT",
    ),
    "image.entry": _Row(
        "filesystem.deny", "what lies in a denied directory of the image is not there", "ENOENT"
    ),
    "image.create": _Row(
        "filesystem.deny",
        "nothing can be made in a denied directory of the image",
        "EROFS ENOENT",
        like="hidden.create",
    ),
    "absent": _Row(
        "filesystem.deny",
        "a denied path that doesn't exist isn't there either",
        "ENOENT",
    ),
    "absent.create": _Row(
        "filesystem.deny",
        "a denied path that doesn't exist can't be made",
        "EROFS",
    ),
    "tmp.write": _Row("filesystem.tmp-private", "the temporary directory is writable", "ok"),
    "tmp.hidden": _Row("filesystem.tmp-private", "the host's temporary files are not there", "ENOENT"),
    "device.none": _Row("", "no device of the host is there", "ENOENT"),
    "device.seen": _Row("", "no device of the host is seen", "ENOENT", like="device.none"),
    "device.own": _Row(
        "",
        "no device of the host is there",
        "ENOENT",
    ),
    "device.make": _Row("process.unprivileged", "no device is made", "EPERM"),
    # Links and renames
    "exchange": _Row(
        "filesystem.readonly",
        "a restricted path is a mount point, and none is exchanged",
        "EBUSY",
    ),
    "link.denied": _Row("filesystem.deny", "no second name of what is denied", "ENOENT", like="hidden.entry"),
    "link.across": _Row("filesystem.readonly", "no second name on another mount", "EXDEV"),
    # Processes
    "privilege.none": _Row("process.unprivileged", "no right to it", "EPERM"),
    "privilege.bound": _Row("process.unprivileged", "no capability can be gained", "ok"),
    "inside": _Row("", "the namespaces are not the host's", "ok"),
    "outside.list": _Row("process.kernel", "processes outside are not listed", "ok"),
    "outside.process": _Row("", "processes outside are not there", "ESRCH"),
    # System calls
    "filtered": _Row("process.seccomp", "the filter refuses it before the kernel looks", "EPERM"),
    "filtered.nosys": _Row(
        "process.seccomp",
        "the filter says there is no such call",
        "ENOSYS",
    ),
    "filtered.invalid": _Row("process.seccomp", "the filter answers as if it were not supported", "EINVAL"),
    "mode.asked": _Row("", "with another mode the kernel is asked, and finds no file", "ENOENT EBADF"),
    "terminal.type": _Row(
        "process.seccomp", "the filter refuses it before the kernel looks", "EPERM", like="filtered"
    ),
    "terminal.make": _Row("", "a new terminal can be made", "ok"),
    "foreign-abi": _Row(
        "process.seccomp",
        "calls of 32-bit programs end the process",
        "SIGSYS",
    ),
    "foreign-abi.x32": _Row(
        "process.seccomp",
        "calls of x32 end the process",
        "SIGSYS",
    ),
    "personality.ask": _Row(
        "process.seccomp",
        "asking for the execution domain works",
        "ok",
    ),
    "filtered.family": _Row("process.seccomp", "the filter refuses the family", "EPERM"),
    "family.six": _Row("", "sockets of IPv6 can be made", "ok", like="net.socket"),
    "filtered.netlink": _Row(
        "process.seccomp",
        "there is no other netlink than that of routes",
        "EPROTONOSUPPORT",
    ),
    "privilege.identity": _Row(
        "process.unprivileged",
        "no right to become or name somebody else",
        "EPERM",
    ),
    "privilege.enter": _Row(
        "process.unprivileged",
        "no right to another namespace",
        "EPERM",
    ),
    "root.inside": _Row(
        "process.root",
        "the user namespace is not the host's",
        "ok",
    ),
    "privilege.trace": _Row("process.seccomp", "no right to other processes", "EPERM"),
    "outside.directory": _Row("", "no directory of a process outside", "ENOENT"),
    "kernel.write": _Row(
        "",
        "what steers the kernel is on a read-only mount",
        "EROFS",
    ),
    "kernel.rights": _Row(
        "",
        "what steers the kernel is root's, or on a read-only mount",
        "EACCES EROFS",
    ),
    "kernel.cgroup-rights": _Row("", "control groups are root's, or not there", "EACCES EROFS ENOENT"),
    "kernel.cgroup": _Row(
        "",
        "control groups run no program",
        "EROFS ENOENT",
    ),
    "kernel.hidden": _Row(
        "process.kernel",
        "over it lies an empty directory, or a device: the null device, or one that can't be opened",
        "ok EACCES ENOENT",
    ),
    "kernel.interface": _Row("process.kernel", "no device of the host's network is there", "ENOENT EACCES"),
    "kernel.memory": _Row("", "the kernel's memory needs a capability", "EPERM"),
    "kernel.absent": _Row("", "what this kernel lacks is not there inside either", "ENOENT"),
    "kernel.no-order": _Row("", "nothing inside takes an order that this kernel knows none of", "ENOENT"),
    "process.environ": _Row("", "variables of the first process", "ok"),
    "account.closed": _Row(
        "filesystem.read-all", "a file that no rule denies is closed by its owner's rights alone", "EACCES"
    ),
    # Network
    "net.socket": _Row("", "sockets of IP can be made", "ok"),
    "net.own": _Row("network.none", "there is a loopback of one's own", "ok"),
    "net.interfaces": _Row("network.none", "no interface of the host is there", "ok"),
    "net.loopback": _Row("network.none", "nobody listens on a loopback of one's own", "ECONNREFUSED"),
    "net.datagram": _Row("network.none", "sent to a loopback of one's own", "ok ECONNREFUSED"),
    "net.outside": _Row(
        "network.none",
        "there is no way out",
        "ENETUNREACH",
    ),
    "net.behind": _Row(
        "network.proxy",
        "in a network with the proxy alone nobody passes anything on",
        "ENETUNREACH EHOSTUNREACH EADDRNOTAVAIL ETIMEDOUT",
    ),
    "net.behind.datagram": _Row(
        "network.proxy", "what is sent there is answered by nobody", "ok ENETUNREACH EHOSTUNREACH"
    ),
    "net.unexposed": _Row(
        "network.expose", "nobody of the host comes to a port that is not listed", "ETIMEDOUT"
    ),
    "unix.unlisted": _Row(
        "network.no-sockets",
        "a socket that is not listed",
        "EPERM",
    ),
    "unix.later": _Row(
        "network.later-sockets",
        "a socket that appeared in a listed directory after rendering",
        "EPERM",
    ),
    "unix.written": _Row(
        "network.later-sockets",
        "a socket of the host that appeared in a writable directory after rendering",
        "EPERM",
    ),
    "unix.own": _Row("network.own-sockets", "it is bound and connected to in a writable directory", "ok"),
    "unix.own.temporary": _Row(
        "network.own-sockets", "it is bound and connected to in the temporary directory", "ok"
    ),
    "unix.own.abstract": _Row("network.own-sockets", "it is bound and connected to without a path", "ok"),
    "unix.none": _Row("network.no-own-sockets", "the filter makes no Unix sockets but pairs", "EPERM"),
    "unix.host": _Row(
        "network.no-sockets",
        "without own ones, as with the host's network, the filter makes no Unix sockets but pairs",
        "EPERM",
    ),
    "unix.abstract": _Row(
        "network.no-sockets",
        "a socket without a path",
        "EPERM",
    ),
    # Environment
    "variable.none": _Row("environment.pass", "a variable that is not passed", "ENOENT"),
    "variable.image": _Row(
        "environment.pass",
        "a variable of the host that stays there: it is the image's own, or not there",
        "ENOENT ok",
    ),
    # Secrets
    "shim.token": _Row(
        "credentials.shims", "the program on the host runs, with the sandbox's token and not the host's", "ok"
    ),
    "shim.refused": _Row("credentials.shims", "the bridge refuses it, and the shim ends with 126", "ok"),
    "shim.gone": _Row("credentials.shims", "the shim finds no bridge, and ends with 125", "ok"),
    "secret.nowhere": _Row("credentials.shims", "a search that finds nothing", "ok"),
    "cloud.read": _Row("credentials.cloud", "a cloud account's file may be read", "ok"),
    "cloud.write": _Row("credentials.cloud", "a cloud account's file is on a read-only mount", "EROFS"),
    "cloud.hidden": _Row(
        "credentials.cloud",
        "what lies in a directory that is not opened is not there",
        "ENOENT",
    ),
    "cloud.hidden.file": _Row(
        "credentials.cloud",
        "over a file that is not opened lies a device on a mount without devices, or a file without rights",
        "EACCES",
    ),
    # Limits
    "limit.core": _Row("", "the limit of core files is 0, and stays so", "ok"),
    "limit.files": _Row("resources.files", "one file too many", "EMFILE"),
    "limit.pids": _Row(
        "resources.pids",
        "one process too many",
        "EAGAIN",
    ),
    "limit.memory": _Row(
        "resources.memory",
        "too much memory ends who takes it",
        "SIGKILL ENOMEM",
    ),
}
