"""Probes of ports between the loopback interfaces of host and sandbox, in both directions."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.canary import CanaryListener
from sandwright.verify.free_ports import free_port
from sandwright.verify.listeners import Visitor
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.subject import ProofSubject, step

_PATIENCE, _SILENCE = 8000, 1500
"""Milliseconds in which an allowed client must connect, and a denied one must not."""


def probes(subject: ProofSubject) -> Iterator[Probe]:
    """The probes of listed ports, and of one that is not listed."""
    network = subject.policy.network
    if network.mode == "host" or not subject.linux:
        return
    for port in network.expose:
        yield _exposed(subject, port)
    if network.expose:
        yield _unexposed(subject)
    if subject.declaration.of("network.localhost").level == "exact":
        yield from (_localhost(subject, port) for port in network.localhost)


def _exposed(subject: ProofSubject, port: int) -> Probe:
    word, answer = uuid.uuid4().hex, uuid.uuid4().hex
    visitor = subject.listeners.visitor(port, word)
    served = attempt("serve", "127.0.0.1", port, answer, _PATIENCE)
    return Probe(
        f"network/expose: {port}",
        Family.NETWORK,
        "a server inside is reached on the host's localhost, and not on another address of the host",
        (ProbeStep(served, "works", value=word.encode()),),
        check=lambda: _visited(visitor, answer),
    )


def _visited(visitor: Visitor, answer: str) -> str | None:
    if visitor.elsewhere:
        return "the server was reached on another address of the host, too"
    return None if visitor.answer == answer.encode() else "no client on the host got the server's answer"


def _unexposed(subject: ProofSubject) -> Probe:
    port, word = free_port(), uuid.uuid4().hex
    visitor = subject.listeners.visitor(port, word)
    return Probe(
        "network/unexposed",
        Family.NETWORK,
        "a server inside on a port that is not listed is not reached",
        (step("net.unexposed", "serve", "127.0.0.1", port, word, _SILENCE),),
        (step("works", "loopback", "127.0.0.1"),),
        check=lambda: "a client on the host got the server's answer" if visitor.answer else None,
    )


def _localhost(subject: ProofSubject, port: int) -> Probe:
    """If a server listens there already, the probe only connects to it."""
    canary, word = subject.listeners.at(port), uuid.uuid4().hex
    return Probe(
        f"network/localhost: {port}",
        Family.NETWORK,
        "a server on the host's localhost is reached inside on its port",
        (step("works", "tcp", "127.0.0.1", port, *([word] if canary else [])),),
        check=_hears(canary, word) if canary else None,
    )


def _hears(canary: CanaryListener, word: str) -> Callable[[], str | None]:
    return lambda: None if canary.heard(word) else "the server on the host heard nothing"
