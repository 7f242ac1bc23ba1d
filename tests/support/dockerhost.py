"""A Docker daemon for tests, on machines where none runs (CI, no systemd)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from sandwright import process
from sandwright.engines.daemon import own_daemon
from sandwright.engines.docker import ADDRESS, answers
from sandwright.errors import HostError
from sandwright.runtime.scratch import scratch_directory

LISTING = 30.0
"""Seconds."""


@contextlib.contextmanager
def docker_daemon(*, limit: float = 60.0) -> Iterator[str]:
    """Make sure that a daemon answers, for the length of a `with`; return its address, empty for the default.

    A daemon that answers already is used. Otherwise one is started, and DOCKER_HOST of this process names it
    until the end. Raise HostError if we are not root, and under the conditions of `own_daemon`.
    """
    if answers(None):
        yield os.environ.get(ADDRESS, "")
        return
    if os.geteuid() != 0:
        raise HostError("no Docker daemon answers, and only root can start one")
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(own_daemon(stack.enter_context(scratch_directory()), limit=limit))
        stack.enter_context(_address(address))
        yield address


def no_way_from(bridge: str) -> str:
    """The reason why containers on a bridge of this machine cannot reach other networks, empty if none is
    known.

    A dockerd with its own rules sets the policy of FORWARD to DROP, and leaves that behind when it ends. A
    daemon that leaves iptables alone, like `own_daemon`, adds no rule for its networks.
    """
    if process.find("iptables") is None or os.geteuid() != 0:
        return ""
    listed = process.run("iptables", "--wait", "10", "--list-rules", timeout=LISTING, check=False)
    return refused_forwarding(listed.text, bridge) if listed else ""


def refused_forwarding(rules: str, bridge: str) -> str:
    """The same reason, from the output of `iptables --list-rules`."""
    lines = rules.splitlines()
    let_through = any(bridge in line.split() and line.endswith("-j ACCEPT") for line in lines)
    if "-P FORWARD DROP" not in lines or let_through:
        return ""
    return (
        "iptables drops what is forwarded (-P FORWARD DROP), as another dockerd leaves it, and no rule lets "
        f"{bridge} through: containers of a daemon without rules of its own reach no proxy. Start that "
        "other daemon and name it by DOCKER_HOST; or take its policy back: iptables -P FORWARD ACCEPT; or "
        "work in a network of its own: unshare --net"
    )


@contextlib.contextmanager
def _address(address: str) -> Iterator[None]:
    before = os.environ.get(ADDRESS)
    os.environ[ADDRESS] = address
    try:
        yield
    finally:
        del os.environ[ADDRESS]
        if before is not None:
            os.environ[ADDRESS] = before
