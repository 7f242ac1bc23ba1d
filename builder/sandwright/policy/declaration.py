"""What each method makes of each feature of a policy: the table that rendering, reports and `explain` read.

`exact`: as the policy says. `stricter`: less is possible than the policy says. `cannot`: more is possible, so
rendering refuses the policy unless `degrade` accepts it. `partly`: more is possible in a case that no policy
can avoid, so that refusing would refuse nearly every policy; every report says so. `unused`: the feature is
about other methods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from sandwright.policy.names import METHODS

Level = Literal["exact", "stricter", "partly", "cannot", "unused"]


@dataclass(frozen=True)
class Support:
    """What a method makes of a feature. `reason` says why it is so, empty where nothing needs saying."""

    level: Level
    reason: str = ""


@dataclass(frozen=True)
class _Row:
    """One cell for several methods, named between blanks."""

    level: Level
    methods: str
    reason: str = ""


_CONTAINERS = "docker podman gvisor oci"
_IMAGE_ROOT = "the root is the image's; paths of the host appear only when they are listed"
_NO_HOST = "nothing of the host's files appears in the cluster"
_VOLUME = "of the host there is only the project, as a volume"
_ON_VOLUME = "by mounts over the volume, which is taken to hold what the host has"
_NOTHING = "noop enforces nothing"
_NO_CGROUP = "a limit for all processes together needs a control group, which this method doesn't make"
_OWN_LOOPBACK = "the sandbox has a localhost of its own"
_ABSTRACT = (
    "they belong to the network, which is the host's, and seccomp can't tell them from those with a path"
)
_OWN_PROGRAM = "a program of that name in the image would be called in a shim's place"
_COVERED = "during a run an empty directory lies in place of what doesn't exist, or of what is above it"
_UNCOVERED = "a mount needs something to lie on, and outside the project nothing is put there"
_APPEARS = f"{_UNCOVERED}; once one is made no further run starts until somebody has looked"
_LINKS = "a mount holds what a link leads to, and whoever can write its directory can replace the link"
_ONLY_PROJECT = "of the host there is only the project"
_LATER = "what listens when a run starts is hidden; programs inside may have Unix sockets of their own"
_RIGHTS = "the account reads what its rights let it"
_MASKS = "the version of the engine, or of the node's runtime, decides which of these paths it hides"
_OPEN_NETWORK = "an account has the network of its machine, and no filter of ours"
_ACCOUNTS = "what every account may read or write stays open to this one"

_TABLE: Mapping[str, tuple[_Row, ...]] = {
    "filesystem.read-all": (
        _Row("exact", "bwrap seatbelt noop"),
        _Row("stricter", _CONTAINERS, _IMAGE_ROOT),
        _Row("stricter", "kubernetes", _VOLUME),
        _Row("stricter", "user alcless", _RIGHTS),
    ),
    "filesystem.read": (
        _Row("exact", f"bwrap seatbelt {_CONTAINERS}"),
        _Row("stricter", "kubernetes", _VOLUME),
        _Row("stricter", "user", _RIGHTS),
        _Row("cannot", "alcless", _ACCOUNTS),
        _Row("cannot", "noop", _NOTHING),
    ),
    "filesystem.write": (
        _Row("exact", f"bwrap seatbelt {_CONTAINERS}"),
        _Row("stricter", "kubernetes", _VOLUME),
        _Row("exact", "user", "where the set-up has shared it with the account; the project always is"),
        _Row("stricter", "alcless", "of the project alone, in a copy that is copied back at the end"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "filesystem.readonly": (
        _Row("exact", f"bwrap seatbelt {_CONTAINERS} user"),
        _Row("exact", "kubernetes", _ON_VOLUME),
        _Row("exact", "alcless", "changes there are not copied back"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "filesystem.deny": (
        _Row("exact", f"bwrap seatbelt {_CONTAINERS} user"),
        _Row("exact", "kubernetes", _ON_VOLUME),
        _Row("cannot", "alcless", _ACCOUNTS),
        _Row("cannot", "noop", _NOTHING),
    ),
    "filesystem.absent": (
        _Row("exact", "seatbelt"),
        _Row("exact", f"bwrap {_CONTAINERS} user", _COVERED),
        _Row("exact", "kubernetes", "by an empty directory that is mounted there, and stays on the volume"),
        _Row("exact", "alcless", "changes there are not copied back"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "filesystem.absent-elsewhere": (
        _Row("exact", "seatbelt"),
        _Row("cannot", f"bwrap {_CONTAINERS} user", _UNCOVERED),
        _Row("exact", "kubernetes", _ONLY_PROJECT),
        _Row("exact", "alcless", "changes there are not copied back"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "filesystem.protect": (
        _Row("exact", f"bwrap {_CONTAINERS} user", _COVERED),
        _Row("exact", "seatbelt", "the directories on the way to such names can be neither made nor renamed"),
        _Row("stricter", "kubernetes", "a repository's own directory is read-only as a whole"),
        _Row("exact", "alcless", "changes there are not copied back"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "filesystem.protect-elsewhere": (
        _Row("exact", "seatbelt"),
        _Row("partly", f"bwrap {_CONTAINERS} user", _APPEARS),
        _Row("exact", "kubernetes", _ONLY_PROJECT),
        _Row("exact", "alcless", "changes there are not copied back"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "filesystem.links": (
        _Row("exact", "seatbelt"),
        _Row("cannot", f"bwrap {_CONTAINERS} kubernetes user", _LINKS),
        _Row("cannot", "alcless", "a link that was replaced in the copy is copied back"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "filesystem.tmp-private": (
        _Row("exact", f"bwrap {_CONTAINERS} kubernetes user"),
        _Row("exact", "seatbelt", "the project's own in TMPDIR, kept between runs; /tmp can't be written"),
        _Row("cannot", "alcless", "TMPDIR is the account's own, but /tmp is every account's"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "filesystem.tmp-shared": (
        _Row("exact", f"bwrap {_CONTAINERS} user alcless noop"),
        _Row("stricter", "seatbelt", "a directory of the project's own in TMPDIR; /tmp can't be written"),
        _Row("stricter", "kubernetes", _NO_HOST),
    ),
    "network.none": (
        _Row("exact", f"bwrap seatbelt {_CONTAINERS} user"),
        _Row("stricter", "kubernetes", "no IP socket can be made, to its own localhost neither"),
        _Row("cannot", "alcless", _OPEN_NETWORK),
        _Row("cannot", "noop", _NOTHING),
    ),
    "network.proxy": (
        _Row("exact", "bwrap docker podman gvisor oci"),
        _Row("exact", "seatbelt", "only the proxy's port on localhost"),
        _Row("exact", "kubernetes", "where the cluster's network enforces NetworkPolicy"),
        _Row("exact", "user", "where root starts it: others are refused"),
        _Row("cannot", "alcless", _OPEN_NETWORK),
        _Row("cannot", "noop", _NOTHING),
    ),
    "network.host": (
        _Row("exact", f"bwrap seatbelt {_CONTAINERS} user alcless noop"),
        _Row("stricter", "kubernetes", "the cluster's network, never the node's"),
    ),
    "network.unix-sockets": (
        _Row("exact", f"bwrap seatbelt {_CONTAINERS} noop"),
        _Row("stricter", "user", "the account needs a right of its own to each"),
        _Row("stricter", "kubernetes", _NO_HOST),
        _Row("stricter", "alcless", "sockets belong to the session of their user"),
    ),
    "network.no-sockets": (
        _Row("exact", "bwrap user", "seccomp refuses AF_UNIX sockets, but pairs"),
        _Row("exact", f"seatbelt {_CONTAINERS} kubernetes"),
        _Row("cannot", "alcless", _ACCOUNTS),
        _Row("cannot", "noop", _NOTHING),
    ),
    "network.other-sockets": (
        _Row(
            "cannot",
            "bwrap user",
            "seccomp can't tell sockets by path, and a readable socket can be connected to",
        ),
        _Row("exact", f"seatbelt {_CONTAINERS} kubernetes"),
        _Row("cannot", "alcless", _ACCOUNTS),
        _Row("cannot", "noop", _NOTHING),
    ),
    "network.later-sockets": (
        _Row("exact", "bwrap user", "seccomp refuses AF_UNIX sockets, but pairs"),
        _Row("exact", "gvisor", "runsc connects to no socket of the host"),
        _Row("exact", "seatbelt kubernetes"),
        _Row("partly", "docker podman oci", _LATER),
        _Row("partly", "alcless", _ACCOUNTS),
        _Row("cannot", "noop", _NOTHING),
    ),
    "network.other-later-sockets": (
        _Row("exact", "seatbelt kubernetes"),
        _Row(
            "partly",
            f"bwrap {_CONTAINERS} user",
            "what listens when a run starts is hidden, and nothing else",
        ),
        _Row("partly", "alcless", _ACCOUNTS),
        _Row("cannot", "noop", _NOTHING),
    ),
    "network.abstract-sockets": (
        _Row("cannot", "bwrap oci docker podman user", _ABSTRACT),
        _Row("exact", "gvisor", "its kernel has names of its own for them"),
        _Row("exact", "seatbelt alcless", "macOS has none"),
        _Row("exact", "kubernetes", "the node's network is never shared"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "network.localhost": (
        _Row("exact", "seatbelt noop"),
        _Row("stricter", f"bwrap {_CONTAINERS} kubernetes user", _OWN_LOOPBACK),
        _Row("cannot", "alcless", _OPEN_NETWORK),
    ),
    "process.unprivileged": (
        _Row("exact", f"bwrap {_CONTAINERS} kubernetes user"),
        _Row("exact", "seatbelt", "set-id programs can't be executed"),
        _Row("cannot", "alcless", "macOS can't forbid an account set-id programs"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "process.privileged": (
        _Row("exact", f"{_CONTAINERS} noop"),
        _Row("stricter", "user alcless", "the account has no sudo, and no capability"),
        _Row("stricter", "bwrap", "root of a user namespace has no rights outside it"),
        _Row("stricter", "kubernetes", "the Pod Security profile `restricted` forbids it"),
        _Row("stricter", "seatbelt", "set-id programs can't be executed"),
    ),
    "process.root": (
        _Row("exact", "bwrap oci gvisor kubernetes"),
        _Row("exact", "user alcless", "the command is the account's, never root's"),
        _Row("partly", "docker podman", "the command is uid 0 of the host, without capabilities"),
        _Row("partly", "seatbelt", "macOS has no user namespaces"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "process.kernel": (
        _Row("exact", "bwrap user", "what of it the host had when this was rendered"),
        _Row("exact", "oci podman gvisor"),
        _Row("partly", "docker kubernetes", _MASKS),
        _Row("unused", "seatbelt alcless", "macOS has neither /proc nor /sys"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "process.seccomp": (
        _Row("exact", "bwrap docker podman oci user"),
        _Row("exact", "gvisor", "with --oci-seccomp; every refusal is EPERM"),
        _Row("exact", "kubernetes", "as a localhost profile on the node"),
        _Row("unused", "seatbelt alcless", "seccomp is Linux'"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "macos": (
        _Row("exact", "seatbelt"),
        _Row("unused", f"bwrap {_CONTAINERS} kubernetes user alcless noop", "fragments are Seatbelt's"),
    ),
    "environment.pass": (
        _Row("exact", f"bwrap seatbelt {_CONTAINERS}"),
        _Row("exact", "user alcless", "but HOME, which is the account's"),
        _Row("stricter", "kubernetes", "no variable of the host reaches the cluster"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "environment.set": (_Row("exact", f"bwrap seatbelt {_CONTAINERS} kubernetes user alcless noop"),),
    "credentials.cloud": (
        _Row("exact", f"bwrap seatbelt {_CONTAINERS}"),
        _Row("cannot", "kubernetes", _NO_HOST),
        _Row("cannot", "user alcless", "their owner's home is closed to the account"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "credentials.shims": (
        _Row("exact", f"bwrap seatbelt {_CONTAINERS}"),
        _Row("cannot", "user alcless", "the bridge serves its owner only, who is not the account"),
        _Row("cannot", "kubernetes", f"there is no host to run them on; {_OWN_PROGRAM}"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "user.mapping": (
        _Row("exact", f"bwrap seatbelt {_CONTAINERS} noop"),
        _Row("exact", "alcless", "what is copied back is its owner's"),
        _Row("cannot", "kubernetes", "files belong to the volume's user"),
        _Row("cannot", "user", "files belong to the account"),
    ),
    "resources.memory": (
        _Row("exact", f"{_CONTAINERS} kubernetes"),
        _Row("cannot", "bwrap user", _NO_CGROUP),
        _Row("cannot", "seatbelt alcless", "macOS has no limit for several processes together"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "resources.cpus": (
        _Row("exact", f"{_CONTAINERS} kubernetes"),
        _Row("cannot", "bwrap user", _NO_CGROUP),
        _Row("cannot", "seatbelt alcless", "macOS has no limit for several processes together"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "resources.pids": (
        _Row("exact", "docker podman", "the first process, which the engine brings, is one of them"),
        _Row("exact", "oci"),
        _Row("stricter", "gvisor", "the threads of runsc itself are counted too"),
        _Row("exact", "bwrap", "RLIMIT_NPROC, which a user namespace counts by itself since Linux 5.14"),
        _Row("exact", "user", "RLIMIT_NPROC of the account: all runs of a project count together"),
        _Row("exact", "alcless", "RLIMIT_NPROC of the account"),
        _Row("cannot", "seatbelt", "RLIMIT_NPROC would count all processes of the user"),
        _Row("cannot", "kubernetes", "a limit of processes is the node's configuration, not a Pod's"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "resources.files": (
        _Row("exact", f"bwrap seatbelt {_CONTAINERS} user alcless"),
        _Row("cannot", "kubernetes", "a Pod has no limit of open files"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "resources.time": (
        _Row("exact", f"bwrap {_CONTAINERS} user", "by the launcher"),
        _Row("partly", "alcless", "by the launcher, as long as nobody kills that"),
        _Row("cannot", "seatbelt", "a process that has left its parents is not ended with them on macOS"),
        _Row("exact", "kubernetes", "activeDeadlineSeconds"),
        _Row("cannot", "noop", _NOTHING),
    ),
    "image": (
        _Row("exact", f"{_CONTAINERS} kubernetes"),
        _Row("unused", "bwrap seatbelt user alcless noop", "the root is the host's"),
    ),
    "outer": (
        _Row("exact", "gvisor"),
        _Row("unused", "bwrap seatbelt docker podman oci kubernetes user alcless noop", "it is gVisor's"),
    ),
}


def _columns() -> Iterator[tuple[str, dict[str, Support]]]:
    for method in METHODS:
        yield (
            method,
            {
                feature: Support(row.level, row.reason)
                for feature, rows in _TABLE.items()
                for row in rows
                if method in row.methods.split()
            },
        )


DECLARATIONS: Mapping[str, Mapping[str, Support]] = dict(_columns())
"""By method and feature: what the method makes of it. Registered methods bring a mapping of their own."""
