"""The filter of MCP messages is killed: no other process gets its port, and the proxy ends.

Tests of egress/inspection.py: the state after the death of the filter.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
from pathlib import Path

import pytest

from egress.test_mcp import parent, processes
from support.inspecting import inspected
from support.netlab import World
from support.waiting import until

pytestmark = pytest.mark.needs("squid", "haproxy", "openssl", "ip", "setpriv")


def state(process: Path) -> str:
    return (process / "stat").read_text().rpartition(")")[2].split()[0]


def test_nobody_takes_the_port_of_a_filter_that_died(world: World) -> None:
    """haproxy sends its greeting to this port, so it stays ours. The supervisor is stopped meanwhile."""
    with inspected(world) as opened:
        found = processes(opened)
        environment = (found["haproxy"] / "environ").read_bytes()
        port = int(environment.partition(b"SW_FILTER=")[2].partition(b"\0")[0])
        supervisor = int(parent(found["haproxy"]))
        os.kill(supervisor, signal.SIGSTOP)
        try:
            os.kill(int(found["filter"].name), signal.SIGKILL)
            until(lambda: state(found["filter"]) == "Z", "the filter goes on")
            with socket.socket() as neighbour, pytest.raises(OSError) as caught:  # noqa: PT011
                neighbour.bind(("127.0.0.1", port))
        finally:
            os.kill(supervisor, signal.SIGCONT)
        assert caught.value.errno == errno.EADDRINUSE
        until(lambda: not opened.proxy.alive, "the proxy goes on without its filter")
