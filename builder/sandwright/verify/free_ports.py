"""Replaces ports that another run exposes by free ones, to prove a policy meanwhile."""

from __future__ import annotations

import dataclasses
import errno
import socket
from collections.abc import Callable, Mapping

from sandwright.policy.resolved import ResolvedPolicy

_FAMILIES = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}

Resolve = Callable[..., ResolvedPolicy]


def replaced_ports(policy: ResolvedPolicy) -> Mapping[int, int]:
    """A free port for each port of `network.expose` that is in use on this machine."""
    return {port: free_port() for port in policy.network.expose if _is_taken(port)}


def with_ports(resolve: Resolve, ports: Mapping[int, int]) -> Resolve:
    """The same policy with other exposed ports."""

    def resolved(*words: object) -> ResolvedPolicy:
        policy = resolve(*words)
        exposed = tuple(ports.get(port, port) for port in policy.network.expose)
        return dataclasses.replace(policy, network=dataclasses.replace(policy.network, expose=exposed))

    return resolved if ports else resolve


def ports_notes(method: str, ports: Mapping[int, int]) -> tuple[str, ...]:
    """The notes of a report about them."""
    return tuple(
        f"{method}: port {port} is taken on this machine: proved with port {free} in its place"
        for port, free in ports.items()
    )


def free_port() -> int:
    """A port of the loopback that no program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _is_taken(port: int) -> bool:
    for family, address in _FAMILIES.items():
        try:
            socket.create_server((address, port), family=family).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
    return False
