"""The witness for a sandbox on another machine, with a real listener that hears its first client."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from sandwright.errors import HostError
from sandwright.runtime.probe.protocol import ProbeAnswer
from sandwright.verify.catalogue.network import _remote_probe
from sandwright.verify.outcome import judge
from sandwright.verify.probe import ProbeStep
from sandwright.verify.subject import step
from sandwright.verify.verdict import Verdict

CONTROL = (step("works", "pair"),)
OK, REFUSED = ProbeAnswer("ok"), ProbeAnswer("errno", "EPERM")


class Listener:
    """Hears its first client. `deaf` never hears its control, `gone` can't be tried."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address, self.port = self._listener.getsockname()
        self.deaf = self.gone = False
        self._first: list[bytes] = []
        self._thread = threading.Thread(target=self._hear, daemon=True)
        self._thread.start()

    def _hear(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:
            return
        with peer:
            self._first.append(peer.recv(256))

    def notify(self, word: bytes) -> None:
        with socket.create_connection((self.address, self.port), timeout=5) as end:
            end.sendall(word)
        self._thread.join(5)

    def first_word(self, control: str) -> str:
        if self.gone:
            raise HostError("no Pod starts")
        if not self._first and not self.deaf:
            self.notify(control.encode())
        return b"".join(self._first).decode()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


def _word(asked: ProbeStep) -> bytes:
    return asked.attempt.arguments[2]


def test_it_hears_its_control_alone(listener: Listener) -> None:
    probe = _remote_probe(listener, "net.outside", CONTROL)
    (asked,) = probe.steps
    assert asked.attempt.arguments[:2] == (listener.address.encode(), str(listener.port).encode())
    assert judge(probe, "kubernetes", (OK, REFUSED)).verdict is Verdict.PASS


def test_it_hears_the_sandbox(listener: Listener) -> None:
    """The listener decides, whatever the sandbox's own answer is."""
    probe = _remote_probe(listener, "net.outside", CONTROL)
    listener.notify(_word(probe.steps[0]))
    found = judge(probe, "kubernetes", (OK, REFUSED))
    assert (found.verdict, "was reached" in found.evidence) == (Verdict.FAIL, True)


@pytest.mark.parametrize("fault", ["deaf", "gone"])
def test_what_nobody_can_reach_proves_nothing(listener: Listener, fault: str) -> None:
    setattr(listener, fault, True)
    found = judge(_remote_probe(listener, "net.outside", CONTROL), "kubernetes", (OK, REFUSED))
    assert found.verdict is Verdict.FAIL
    assert ("not even from a client" if fault == "deaf" else "was not tried: no Pod starts") in found.evidence


def test_without_one_it_is_skipped_with_the_reason() -> None:
    found = judge(_remote_probe("we may not", "net.outside", CONTROL), "kubernetes", ())
    assert (found.verdict, found.evidence) == (Verdict.SKIPPED, "we may not")
