"""The listener that must not be reached, and the variables that are searched for inside."""

from __future__ import annotations

import socket
from pathlib import Path

from sandwright.verify.canary import CanaryListener, canary_listener
from sandwright.verify.subject import canaries
from support.proving import resolver


def test_hears_a_word(listening: CanaryListener) -> None:
    assert not listening.heard("word")
    with socket.create_connection(listening.address, timeout=5) as client:
        client.sendall(b"word")
        assert client.recv(1) == b"", "it closes when it has heard"
    assert listening.heard("word")
    assert not listening.heard("other")


def test_listens_on_loopback_only_and_not_for_longer() -> None:
    with canary_listener() as hearing:
        address = hearing.address
    assert address[0] == "127.0.0.1"
    with socket.socket() as client:
        assert client.connect_ex(address) != 0


def test_variables_that_starters_go_by_stay(tmp_path: Path) -> None:
    """Without root, Podman starts nothing for a USER without ranges of ids."""
    policy = resolver("schema: 1\nmethod: bwrap\n", tmp_path / "p")(())
    assert {"USER", "HOME", "PATH", "LOGNAME"} <= {*policy.environment.passed}
    assert {"USER", "HOME", "PATH", "LOGNAME"} & {*canaries(policy).passed} == {"LOGNAME"}
