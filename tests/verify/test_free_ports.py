"""Ports that a proof exposes while another program uses those of the policy."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from sandwright.verify.free_ports import free_port, replaced_ports, with_ports
from support.proving import resolver


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_only_a_taken_port_is_replaced(tmp_path: Path, family: int, address: str) -> None:
    free = free_port()
    with socket.create_server((address, 0), family=family) as other:
        taken = other.getsockname()[1]
        text = f"schema: 1\nmethod: bwrap\nnetwork: {{expose: [{taken}, {free}]}}\n"
        resolve = resolver(text, tmp_path / "p")
        ports = replaced_ports(resolve(()))
        assert [*ports] == [taken]
        assert with_ports(resolve, ports)(()).network.expose == (ports[taken], free)
        socket.create_server(("127.0.0.1", ports[taken])).close()
    assert replaced_ports(resolve(())) == {}
