"""Renders the parts of a policy that are the same for all methods whose root is an image's."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.methods.properties import Answers
from sandwright.methods.shared import reasons
from sandwright.policy.declaration import Support

SUPPORT: Mapping[str, Support] = {
    "filesystem.read-all": Support(
        "stricter", "the root is the image's; paths of the host appear only when they are listed"
    ),
    "filesystem.read": Support("exact"),
    "filesystem.write": Support("exact"),
    "filesystem.readonly": Support("exact"),
    "filesystem.deny": Support("exact", reasons.DENIED_LATER_ENDS),
    "filesystem.deny-inside": Support("exact"),
    "filesystem.attributes": Support("exact"),
    "filesystem.absent": Support("exact", reasons.PLACEHOLDER_DIRECTORY),
    "filesystem.absent-elsewhere": Support("cannot", reasons.UNCOVERED),
    "filesystem.protect": Support("exact", reasons.PLACEHOLDER_DIRECTORY),
    "filesystem.protect-elsewhere": Support("partly", reasons.APPEARS),
    "filesystem.links": Support("cannot", reasons.LINKS),
    "filesystem.git-links": Support("partly", reasons.GIT_LINKS),
    "filesystem.home": Support("exact"),
    "filesystem.tmp-private": Support("exact"),
    "filesystem.tmp-shared": Support("exact"),
    "network.none": Support("exact"),
    "network.proxy": Support("exact"),
    "network.host": Support("exact"),
    "network.http": Support("exact", reasons.INSPECTED),
    "network.private": Support("exact"),
    "network.unix-sockets": Support("exact"),
    "network.no-sockets": Support("exact"),
    "network.other-sockets": Support("exact"),
    "network.other-later-sockets": Support("partly", reasons.LISTENING_IS_HIDDEN),
    "network.own-sockets": Support("exact"),
    "network.no-own-sockets": Support("exact", reasons.NO_UNIX_SOCKETS),
    "network.localhost": Support("stricter", reasons.OWN_LOOPBACK),
    "network.ca": Support("exact", reasons.HOSTS_AUTHORITIES),
    "process.unprivileged": Support("exact"),
    "process.sandbox-root": Support("exact"),
    "macos": Support("unused", reasons.FRAGMENTS),
    "mcp.tools": Support("exact", reasons.MESSAGES),
    "environment.pass": Support("exact"),
    "environment.set": Support("exact"),
    "credentials.cloud": Support("exact"),
    "credentials.http": Support("exact", reasons.INSPECTED),
    "credentials.shims": Support("exact"),
    "workspace": Support("exact"),
    "user.mapping": Support("exact"),
    "resources.memory": Support("exact"),
    "resources.cpus": Support("exact"),
    "resources.files": Support("exact"),
    "resources.time": Support("exact", reasons.BY_LAUNCHER),
    "image": Support("exact"),
}
"""By feature."""

EXPECTED: Mapping[str, Answers] = {
    "absent.create": Answers(
        "EROFS ENOENT", "the root is the image's, which may lack the directory above, too"
    ),
    "kernel.cgroup": Answers("ENOENT", "no cgroups are mounted"),
    "git.symlink": Answers("", reasons.GIT_LINKS),
    "unix.abstract": Answers("ECONNREFUSED", "a separate network namespace doesn't have it"),
}
"""By claim: the answers that all of them must give."""
