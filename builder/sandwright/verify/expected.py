"""What must come of each attempt, by claim and method: written down, never taken from what is rendered.

A row is a claim: what a policy's feature promises of one kind of attempt, with the answers that show it. The
answers hold for all methods but those that have a word of their own there, with the reason. `ok` is that it
worked; all others are errors by their names (errno(3)) or signals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_CONTAINERS = ("oci", "docker", "podman", "gvisor")


@dataclass(frozen=True)
class Expected:
    """The answers that show a claim. `reason` says why a method has others than the rest."""

    claim: str
    feature: str
    about: str
    answers: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True)
class _Row:
    feature: str
    about: str
    answers: str
    others: Mapping[str, tuple[str, str]]
    """Answers and reason, by methods named between blanks."""


def expected(claim: str, method: str) -> Expected:
    """What a claim expects of a method. Raise KeyError for a claim that is in no row."""
    row = _TABLE[claim]
    for methods, (answers, reason) in row.others.items():
        if method in methods.split():
            return Expected(claim, row.feature, row.about, tuple(answers.split()), reason)
    return Expected(claim, row.feature, row.about, tuple(row.answers.split()))


def claims() -> Iterator[str]:
    """All claims there are."""
    return iter(_TABLE)


def _row(feature: str, about: str, answers: str, **others: tuple[str, str]) -> _Row:
    return _Row(feature, about, answers, {key.replace("_", " "): value for key, value in others.items()})


_SEATBELT = ("EPERM", "Seatbelt answers every refusal so")
_RIGHTS = "the account's own rights are asked first, of the path and of all above it"
_SENTRY = "gVisor's kernel, the sentry, answers in the host's place"

_TABLE: Mapping[str, _Row] = {
    # What works.
    "works": _row("", "what the policy allows works", "ok"),
    # Files
    "readonly.write": _row(
        "filesystem.readonly",
        "what may only be read is on a read-only mount",
        "EROFS",
        user=("EROFS EACCES", _RIGHTS),
        seatbelt=_SEATBELT,
    ),
    "readonly.move": _row(
        "filesystem.readonly",
        "a restricted path is a mount point, and none is renamed, replaced or removed",
        "EBUSY",
        seatbelt=_SEATBELT,
    ),
    "covered.write": _row(
        "filesystem.protect",
        "a file of Git's that must not say anything is on a read-only mount, and nobody may write it",
        "EACCES EROFS",
        seatbelt=_SEATBELT,
    ),
    "covered.make": _row(
        "filesystem.protect",
        "something is in the place of a protected name that doesn't exist",
        "EEXIST",
        seatbelt=_SEATBELT,
    ),
    "covered.replace": _row(
        "filesystem.protect",
        "a directory that is a mount point is in the place of a protected name that doesn't exist",
        "EISDIR EBUSY EXDEV",
        seatbelt=_SEATBELT,
    ),
    "covered.inside": _row(
        "filesystem.protect",
        "what lies in the place of a protected name that doesn't exist is empty, and stays so",
        "EACCES EROFS",
        seatbelt=_SEATBELT,
    ),
    "hidden.entry": _row(
        "filesystem.deny",
        "what lies in a denied directory is not there",
        "ENOENT",
        user=("ENOENT EACCES", _RIGHTS),
        seatbelt=_SEATBELT,
    ),
    "hidden.list": _row(
        "filesystem.deny",
        "a denied directory has nothing in it",
        "ok",
        user=("ok EACCES", _RIGHTS),
        seatbelt=_SEATBELT,
    ),
    "hidden.create": _row(
        "filesystem.deny",
        "nothing can be made in a denied directory",
        "EROFS",
        gvisor=("EACCES", "the sentry looks at the directory's mode, 0555, first"),
        user=("EROFS EACCES", _RIGHTS),
        seatbelt=_SEATBELT,
    ),
    "hidden.file": _row(
        "filesystem.deny",
        "over a denied file lies a device on a mount without devices, or a file without rights",
        "EACCES",
        seatbelt=_SEATBELT,
    ),
    "hidden.file.write": _row(
        "filesystem.deny",
        "over a denied file lies a device on a mount without devices, or a file without rights",
        "EACCES",
        seatbelt=_SEATBELT,
    ),
    "hidden.kind": _row(
        "filesystem.deny",
        "a denied file is no directory",
        "ENOTDIR",
        gvisor=("EACCES", "the sentry looks at its mode first"),
        seatbelt=_SEATBELT,
    ),
    "foreign": _row(
        "filesystem.read-all",
        "nothing of the host is there but what is listed: absent, or the image's own",
        "ENOENT ok",
    ),
    "absent": _row(
        "filesystem.deny",
        "a denied path that doesn't exist isn't there either",
        "ENOENT",
        user=("ENOENT EACCES", _RIGHTS),
        seatbelt=_SEATBELT,
    ),
    "absent.create": _row(
        "filesystem.deny",
        "a denied path that doesn't exist can't be made",
        "EROFS",
        oci_docker_podman_gvisor=(
            "EROFS ENOENT",
            "the root is the image's, which may lack the directory above, too",
        ),
        user=("EROFS EACCES", _RIGHTS),
        seatbelt=_SEATBELT,
    ),
    "tmp.hidden": _row(
        "filesystem.tmp-private", "the host's temporary files are not there", "ENOENT", seatbelt=_SEATBELT
    ),
    "device.none": _row("", "no device of the host is there", "ENOENT"),
    "device.own": _row(
        "",
        "no device of the host is there",
        "ENOENT",
        gvisor=("ok", "it is the sentry's own, without a counterpart on the host"),
    ),
    "device.make": _row("process.unprivileged", "no device is made", "EPERM", seatbelt=_SEATBELT),
    # Links and renames
    "exchange": _row(
        "filesystem.readonly",
        "a restricted path is a mount point, and none is exchanged",
        "EBUSY",
        gvisor=("EINVAL", "the sentry knows no exchange"),
    ),
    "link.across": _row(
        "filesystem.readonly", "no second name on another mount", "EXDEV", seatbelt=_SEATBELT
    ),
    # Processes
    "privilege.none": _row("process.unprivileged", "no right to it", "EPERM"),
    "outside.process": _row("", "processes outside are not there", "ESRCH"),
    # System calls
    "filtered": _row("process.seccomp", "the filter refuses it before the kernel looks", "EPERM"),
    "filtered.nosys": _row(
        "process.seccomp",
        "the filter says there is no such call",
        "ENOSYS",
        gvisor=("ENOSYS EPERM", "runsc answers every refusal with EPERM"),
    ),
    "foreign-abi": _row(
        "process.seccomp",
        "calls of 32-bit programs end the process",
        "SIGSYS",
        gvisor=("EBADF ENOSYS", "the sentry has only 64-bit calls, and takes the number as one of those"),
    ),
    "foreign-abi.x32": _row(
        "process.seccomp",
        "calls of x32 end the process",
        "SIGSYS",
        gvisor=("EPERM ENOSYS", "the sentry has no such calls"),
    ),
    "personality.ask": _row(
        "process.seccomp",
        "asking for the execution domain works",
        "ok",
        gvisor=("ok EINVAL", "the sentry does not know the question"),
    ),
    "filtered.family": _row("process.seccomp", "the filter refuses the family", "EPERM"),
    "filtered.netlink": _row(
        "process.seccomp",
        "there is no other netlink than that of routes",
        "EPROTONOSUPPORT",
        gvisor=("EPROTONOSUPPORT EPERM", "runsc answers every refusal of its filter with EPERM"),
    ),
    "privilege.identity": _row(
        "process.unprivileged",
        "no right to become or name somebody else",
        "EPERM",
        bwrap_oci_podman=("EINVAL EPERM", "a user namespace has one user, so there is nobody of that number"),
    ),
    "privilege.enter": _row(
        "process.unprivileged",
        "no right to another namespace",
        "EPERM",
        gvisor=("EPERM ENOENT", "the sentry has no such namespaces"),
    ),
    "root.inside": _row(
        "process.root",
        "the user namespace is not the host's",
        "ok",
        docker_podman=("ok", "declared: the command is uid 0 of the host, without capabilities"),
    ),
    "privilege.trace": _row("process.seccomp", "no right to other processes", "EPERM"),
    "outside.directory": _row("", "no directory of a process outside", "ENOENT"),
    "kernel.write": _row(
        "",
        "what steers the kernel is on a read-only mount",
        "EROFS",
        user=("EROFS EACCES", _RIGHTS),
        gvisor=("EROFS EACCES ENOENT", "the settings are the sentry's own, few, and not to be written"),
    ),
    "kernel.rights": _row(
        "",
        "what steers the kernel is root's, or on a read-only mount",
        "EACCES EROFS",
        gvisor=("EACCES EROFS ENOENT", "the settings are the sentry's own, few, and not to be written"),
    ),
    "kernel.cgroup-rights": _row("", "control groups are root's, or not there", "EACCES EROFS ENOENT"),
    "kernel.cgroup": _row(
        "",
        "control groups run no program",
        "EROFS ENOENT",
        user=("EROFS ENOENT EACCES", _RIGHTS),
        oci_docker_podman_gvisor=("ENOENT", "no control groups are mounted"),
    ),
    "kernel.hidden": _row(
        "process.kernel",
        "over it lies an empty directory, or a device: the null device, or one that can't be opened",
        "ok EACCES ENOENT",
    ),
    "kernel.memory": _row("", "the kernel's memory needs a capability", "EPERM"),
    "kernel.absent": _row("", "what this kernel lacks is not there inside either", "ENOENT"),
    "process.environ": _row(
        "", "variables of the first process", "ok", user=("EACCES", "the first process is root's")
    ),
    "account.closed": _row(
        "filesystem.read-all", "a file that no rule denies is closed by its owner's rights alone", "EACCES"
    ),
    # Network
    "net.loopback": _row(
        "network.none", "nobody listens on a loopback of one's own", "ECONNREFUSED", seatbelt=_SEATBELT
    ),
    "net.datagram": _row(
        "network.none", "sent to a loopback of one's own", "ok ECONNREFUSED", seatbelt=_SEATBELT
    ),
    "net.outside": _row(
        "network.none",
        "there is no way out",
        "ENETUNREACH",
        docker_podman=("ENETUNREACH EADDRNOTAVAIL", "engines switch IPv6 off, so that it has no address"),
        gvisor=("EHOSTUNREACH ENETUNREACH", "the sentry's own network stack has no route"),
        seatbelt=_SEATBELT,
    ),
    "net.behind": _row(
        "network.proxy",
        "in a network with the proxy alone nobody passes anything on",
        "ENETUNREACH EHOSTUNREACH EADDRNOTAVAIL ETIMEDOUT",
    ),
    "net.behind.datagram": _row(
        "network.proxy", "what is sent there is answered by nobody", "ok ENETUNREACH EHOSTUNREACH"
    ),
    "unix.unlisted": _row(
        "network.no-sockets",
        "a socket that is not listed",
        "EPERM",
        oci=("ECONNREFUSED", "over it lies a device, to which nobody listens"),
        docker_podman=("EACCES ECONNREFUSED", "over it lies a file that nobody may write, or listens to"),
        gvisor=("EPERM EACCES", "the sentry connects to no socket; in a container a file lies over it, too"),
        seatbelt=_SEATBELT,
    ),
    "unix.later": _row(
        "network.later-sockets",
        "a socket that appeared in a listed directory after rendering",
        "EPERM",
        oci_docker_podman=(
            "ok",
            "declared: only known sockets are hidden, and programs may have their own",
        ),
        seatbelt=_SEATBELT,
    ),
    "unix.host": _row(
        "network.no-sockets", "with the host's network the filter makes no Unix sockets but pairs", "EPERM"
    ),
    "unix.abstract": _row(
        "network.no-sockets",
        "a socket without a path",
        "EPERM",
        oci_docker_podman_gvisor=("ECONNREFUSED", "in a network namespace of one's own nobody has it"),
    ),
    # Environment
    "variable.none": _row("environment.pass", "a variable that is not passed", "ENOENT"),
    # Secrets
    "shim.token": _row(
        "credentials.shims", "the program on the host runs, with the sandbox's token and not the host's", "ok"
    ),
    "shim.refused": _row("credentials.shims", "the bridge refuses it, and the shim ends with 126", "ok"),
    "shim.gone": _row("credentials.shims", "the shim finds no bridge, and ends with 125", "ok"),
    "secret.nowhere": _row("credentials.shims", "a search that finds nothing", "ok"),
    "cloud.read": _row("credentials.cloud", "a cloud account's file may be read", "ok"),
    "cloud.write": _row(
        "credentials.cloud", "a cloud account's file is on a read-only mount", "EROFS", seatbelt=_SEATBELT
    ),
    "cloud.hidden": _row(
        "credentials.cloud",
        "what lies in a directory that is not opened is not there",
        "ENOENT",
        seatbelt=_SEATBELT,
    ),
    "cloud.hidden.file": _row(
        "credentials.cloud",
        "over a file that is not opened lies a device on a mount without devices, or a file without rights",
        "EACCES",
        seatbelt=_SEATBELT,
    ),
    # Limits
    "limit.files": _row("resources.files", "one file too many", "EMFILE"),
    "limit.pids": _row(
        "resources.pids",
        "one process too many",
        "EAGAIN",
        gvisor=("EAGAIN none", "each process inside counts for several, and too many end the whole sandbox"),
    ),
    "limit.memory": _row(
        "resources.memory",
        "too much memory ends who takes it",
        "SIGKILL ENOMEM",
        gvisor=("SIGKILL ENOMEM none", "too much memory ends the whole sandbox"),
    ),
}
