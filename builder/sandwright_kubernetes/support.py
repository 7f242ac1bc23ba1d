"""The support of kubernetes for each feature of a policy."""

from __future__ import annotations

from sandwright.methods.shared import reasons
from sandwright.policy.declaration import Declaration, Support

_NODE = "the node's kernel reports the error only to the program"

DECLARATION = Declaration(
    "kubernetes",
    {
        "filesystem.read-all": Support("stricter", "the project is the only part of the host, as a volume"),
        "filesystem.read": Support("stricter", "the project is the only part of the host, as a volume"),
        "filesystem.write": Support("stricter", "the project is the only part of the host, as a volume"),
        "filesystem.readonly": Support(
            "exact", "by mounts over the volume, if it contains the files of the host"
        ),
        "filesystem.deny": Support(
            "exact", "by mounts over the volume, if it contains the files of the host"
        ),
        "filesystem.deny-inside": Support(
            "exact", "by mounts over the volume, if it contains the files of the host"
        ),
        "filesystem.attributes": Support("exact", "the project is the only part of the host"),
        "filesystem.absent": Support(
            "exact", "by an empty directory that is mounted there, and stays on the volume"
        ),
        "filesystem.absent-elsewhere": Support("exact", "the project is the only part of the host"),
        "filesystem.protect": Support("stricter", "the directory of a repository is read-only as a whole"),
        "filesystem.protect-elsewhere": Support("exact", "the project is the only part of the host"),
        "filesystem.links": Support("cannot", reasons.LINKS),
        "filesystem.git-links": Support(
            "exact", "a protected Git directory is read-only, and no link out of the project is copied back"
        ),
        "filesystem.home": Support("cannot", "the home directory is the image's"),
        "filesystem.tmp-private": Support("exact"),
        "filesystem.tmp-shared": Support("stricter", "the host's files do not exist in the cluster"),
        "network.none": Support("stricter", "IP sockets cannot be created, not even for its own localhost"),
        "network.proxy": Support("exact", "where the cluster's network enforces NetworkPolicy"),
        "network.http": Support("cannot", "no inspecting proxy runs beside a pod"),
        "credentials.http": Support("cannot", "no inspecting proxy runs beside a pod"),
        "network.private": Support(
            "cannot",
            "a NetworkPolicy contains only addresses: the proxy could reach everything in the cluster",
        ),
        "network.host": Support("stricter", "the cluster's network, never the node's"),
        "network.unix-sockets": Support("stricter", "the host's files do not exist in the cluster"),
        "network.no-sockets": Support("exact"),
        "network.other-sockets": Support("exact"),
        "network.later-sockets": Support("exact"),
        "network.other-later-sockets": Support("exact"),
        "network.abstract-sockets": Support("exact", "the node's network is never shared"),
        "network.own-sockets": Support("exact"),
        "network.no-own-sockets": Support("exact", reasons.NO_UNIX_SOCKETS),
        "network.localhost": Support("stricter", reasons.OWN_LOOPBACK),
        "network.expose": Support(
            "cannot", "a Pod is on another machine: `kubectl port-forward` leads there"
        ),
        "network.ca": Support("stricter", "a Pod runs on another machine and trusts those of the image"),
        "process.unprivileged": Support("exact"),
        "process.sandbox-root": Support("stricter", "the Pod Security profile `restricted` forbids it"),
        "process.root": Support("exact"),
        "process.kernel": Support("partly", reasons.MASKS),
        "process.seccomp": Support("exact", "as a localhost profile on the node"),
        "macos": Support("unused", reasons.FRAGMENTS),
        "mcp.tools": Support("cannot", "the log of a pod mixes standard output and standard error"),
        "environment.pass": Support("stricter", "no variable of the host reaches the cluster"),
        "environment.set": Support("exact"),
        "credentials.cloud": Support("cannot", "the host's files do not exist in the cluster"),
        "credentials.shims": Support(
            "cannot",
            "there is no host to run them on; "
            "a program of that name in the image would run instead of the shim",
        ),
        "workspace": Support("cannot", "the cluster has its own copy, whose changes come back at the end"),
        "user.mapping": Support("cannot", "files belong to the volume's user"),
        "resources.memory": Support("exact"),
        "resources.cpus": Support("exact"),
        "resources.pids": Support("cannot", "the process limit is a setting of the node, not of the Pod"),
        "resources.files": Support("cannot", "a Pod has no limit of open files"),
        "resources.time": Support("exact", "activeDeadlineSeconds"),
        "image": Support("exact"),
        "gvisor.engine": Support("unused", reasons.ENGINE_IS_GVISORS),
    },
    preset_limits="the resources of the nodes are unknown",
    mounts=False,
    unreported={
        "calls": _NODE,
        "sockets": _NODE,
        "hosts": "the proxy runs in a separate Pod, whose log lists them",
        "bridge": reasons.UNSEEN_NO_BRIDGE,
        "paths": _NODE,
    },
    namespaces=frozenset(("pid", "ipc", "user")),
)
