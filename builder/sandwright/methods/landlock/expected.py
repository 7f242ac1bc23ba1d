"""Expected results of the probes in landlock, where they differ from those of other methods."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.landlock.support import DECLARATION
from sandwright.methods.properties import Answers

_REFUSED = Answers(
    "EACCES EROFS", "Landlock answers every refusal with this error, unless a mount of the host refuses first"
)
_DEVICE = Answers("EACCES EPERM ENOENT", "it exists if the host has it, and cannot be opened")
_NO_TERMINAL = Answers("EACCES", "no terminal can be created, because their names are in /dev/pts")

_UNLISTED = Answers(
    "EACCES EPERM", "the launcher connects to listed and own sockets; if there are none, seccomp denies them"
)


def _unenforced(feature: str) -> Answers:
    """Nothing is attempted."""
    return Answers("", DECLARATION.of(feature).reason)


EXPECTED: Mapping[str, Answers] = {
    "readonly.write": _REFUSED,
    "readonly.attributes": _unenforced("filesystem.attributes"),
    "readonly.move": _unenforced("filesystem.readonly"),
    "exchange": _unenforced("filesystem.readonly"),
    "inside.write": _unenforced("filesystem.readonly"),
    "inside.link": _unenforced("filesystem.readonly"),
    "inside.entry": _unenforced("filesystem.deny-inside"),
    "inside.create": _unenforced("filesystem.deny-inside"),
    "covered.write": _unenforced("filesystem.protect"),
    "covered.make": _unenforced("filesystem.protect"),
    "covered.replace": _unenforced("filesystem.protect"),
    "covered.inside": _unenforced("filesystem.protect"),
    "git.symlink": _unenforced("filesystem.git-links"),
    "git.move": _unenforced("filesystem.git-links"),
    "reserved.read": _REFUSED,
    "reserved.write": _REFUSED,
    "listed": Answers("ok EACCES", "a directory in which something is denied cannot be listed"),
    "hidden.entry": _REFUSED,
    "hidden.attributes": _unenforced("filesystem.attributes"),
    "hidden.list": _REFUSED,
    "hidden.create": _REFUSED,
    "hidden.file": _REFUSED,
    "hidden.file.write": _REFUSED,
    "link.across": Answers("EXDEV EACCES", "the file's directory does not grant links to other directories"),
    "link.denied": Answers("EXDEV EACCES", "the file's directory does not grant links to other directories"),
    "absent.create": _REFUSED,
    "tmp.write": Answers("EACCES", "the run has a separate directory, which TMPDIR names"),
    "tmp.hidden": _unenforced("filesystem.attributes"),
    "device.none": _DEVICE,
    "device.seen": _unenforced("filesystem.attributes"),
    "device.own": _unenforced("filesystem.attributes"),
    "device.make": Answers(
        "EACCES EPERM", "Landlock grants no devices, and without privileges the kernel creates none"
    ),
    "filtered": Answers("EPERM ENOSYS", "in a container of Podman, its filter answers before ours"),
    "privilege.bound": Answers(
        "", "only root can empty the bounding set; with no_new_privs no program gains capabilities from it"
    ),
    "inside": Answers("", "there are no namespaces"),
    "outside.list": _unenforced("process.kernel"),
    "outside.directory": _unenforced("process.kernel"),
    "outside.process": Answers("EPERM", "it exists, and Landlock denies signals to it"),
    "terminal.type": _NO_TERMINAL,
    "terminal.make": _NO_TERMINAL,
    "kernel.write": _REFUSED,
    "kernel.cgroup": Answers("EACCES ENOENT", "Landlock answers every refusal with this error"),
    "kernel.memory": Answers("EACCES EPERM", "the file is root's, and needs a capability"),
    "kernel.hidden": _unenforced("process.kernel"),
    "kernel.interface": _unenforced("process.kernel"),
    "process.environ": Answers("EACCES EPERM", "Landlock denies access to processes outside"),
    "net.own": Answers("EACCES EPERM", "there is no separate loopback, and no server"),
    "net.interfaces": _unenforced("process.kernel"),
    "net.loopback": Answers("EACCES", "Landlock grants no port"),
    "net.datagram": Answers("EPERM", "seccomp denies datagram sockets"),
    "net.outside": Answers("EACCES EPERM", "Landlock grants no port, and seccomp denies datagram sockets"),
    "unix.own.temporary": Answers("EACCES", "the run has a separate directory, which TMPDIR names"),
    "unix.own.abstract": Answers("EACCES", "names without a path are the host's"),
    "unix.unlisted": _UNLISTED,
    "unix.later": _UNLISTED,
    "unix.written": _UNLISTED,
    "unix.abstract": _UNLISTED,
    "cloud.write": _REFUSED,
    "cloud.hidden": _REFUSED,
}
"""By claim of `sandwright.verify.expected`."""
