"""The listener that must not be reached: it hears what it is sent, and only that."""

from __future__ import annotations

import socket

from sandwright.verify.canary import CanaryListener, canary_listener


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
