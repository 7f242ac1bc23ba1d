"""Sockets of container engines and hypervisors (docker.sock): their clients control the host.

These sockets are denied always, under every policy. A path is the socket, or a directory that holds it.
"""

from __future__ import annotations

from collections.abc import Mapping

SOCKETS: Mapping[str, str] = {
    "/run/docker.sock": "Docker",
    "/run/docker": "Docker",
    "/run/user/$UID/docker.sock": "Docker, rootless",
    "~/.docker/run": "Docker Desktop",
    "~/.docker/desktop": "Docker Desktop",
    "/var/run/docker.sock": "Docker",
    "/run/podman": "Podman",
    "/run/user/$UID/podman": "Podman, rootless",
    "~/.local/share/containers/podman/machine": "Podman's virtual machine",
    "/run/containerd": "containerd",
    "/run/user/$UID/containerd": "containerd, rootless",
    "/run/k3s/containerd": "k3s",
    "/run/crio": "CRI-O",
    "/run/buildkit": "BuildKit",
    "/run/user/$UID/buildkit": "BuildKit, rootless",
    "/run/libvirt": "libvirt",
    "/run/incus": "Incus",
    "/var/lib/incus/unix.socket": "Incus",
    "/var/lib/lxd/unix.socket": "LXD",
    "/var/snap/lxd/common/lxd/unix.socket": "LXD",
    "~/.colima": "Colima",
    "~/.config/colima": "Colima",
    "~/.lima": "Lima",
    "~/.orbstack/run": "OrbStack",
    "~/.rd": "Rancher Desktop",
    "~/Library/Containers/com.docker.docker": "Docker Desktop",
}
"""The engine by path, as a policy spells it."""

PORTS: Mapping[int, str] = {2375: "Docker", 2376: "Docker, with TLS"}
"""The engine by port of the host's localhost, as registered (IANA)."""
