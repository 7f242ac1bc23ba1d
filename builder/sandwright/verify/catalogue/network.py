"""Probes of networks and sockets, with listeners on the host as canaries."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from sandwright.errors import SandwrightError
from sandwright.methods.contract import RemoteCanary
from sandwright.methods.shared.engine.container import PROXY
from sandwright.render.proxy_env import proxy_environment, sandbox_environment
from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.subject import ProofSubject, step

_METADATA = "169.254.169.254"
"""The address of clouds' metadata services, which give a machine its secrets."""


def probes(subject: ProofSubject) -> Iterator[Probe]:
    """The probes of this family."""
    if subject.policy.network.mode == "host":
        yield from _host_network_probes(subject)
    else:
        yield from _isolated_probes(subject)
    yield from _localhost_probes(subject)


def _probe(
    name: str,
    about: str,
    *steps: ProbeStep,
    controls: tuple[ProbeStep, ...] = (),
    check: Callable[[], str | None] | None = None,
) -> Probe:
    return Probe(f"network/{name}", Family.NETWORK, about, steps, controls, check)


def _host_network_probes(subject: ProofSubject) -> Iterator[Probe]:
    word, listeners = uuid.uuid4().hex, subject.listeners
    yield _probe(
        "host",
        "the host's network is reachable: the sandbox connects to a listener on its loopback interface",
        step("works", "tcp", "127.0.0.1", listeners.loopback, word),
        check=lambda: None if listeners.heard(word) else "the listener on the host heard nothing",
    )


def _isolated_probes(subject: ProofSubject) -> Iterator[Probe]:
    listeners, word, other = subject.listeners, uuid.uuid4().hex, uuid.uuid4().hex
    readable = step("works", "read", subject.fixture.read / "plain")  # macOS has no separate network
    control = (step("net.own", "loopback", "127.0.0.1") if subject.linux else readable,)
    behind = _beside_proxy(subject)
    outside, outside_datagram = (
        ("net.behind", "net.behind.datagram") if behind else ("net.outside", "net.outside")
    )
    yield _probe(
        "host-loopback",
        "the sandbox has a separate localhost: listeners of the host get no connection",
        step("net.loopback", "tcp", "127.0.0.1", listeners.loopback, word),
        step("net.datagram", "udp", "127.0.0.1", listeners.datagrams, word),
        controls=control,
        check=lambda: _check_silence(subject, word),
    )
    if subject.policy.network.mode == "proxy" and subject.linux:
        yield _proxy_probe(subject)
    if listeners.address:
        yield _probe(
            "host-address",
            "the host's address is unreachable",
            step(outside, "tcp", listeners.address, listeners.port, other),
            controls=control,
            check=lambda: _check_silence(subject, other),
        )
    yield _probe(
        "outside",
        "nothing outside is reachable: addresses, name servers, cloud metadata, IPv6",
        step(outside, "tcp", "1.1.1.1", 443),
        ProbeStep(attempt("udp", "1.1.1.1", 53, b"\x12\x34\x01\x00\x00\x01"), outside_datagram, value=b""),
        step(outside, "tcp", _METADATA, 80),
        step(outside, "tcp", "2606:4700:4700::1111", 443),
        controls=control,
    )
    if subject.remote:
        yield _remote_probe(subject.remote, outside, control)
    if subject.linux and not behind:
        yield _probe(
            "interfaces",
            "there is no interface other than loopback",
            ProbeStep(attempt("read", "/proc/net/dev"), "net.interfaces", lacks=tuple(_interface_lines())),
            controls=control,
        )


def _remote_probe(remote: RemoteCanary | str, claim: str, control: tuple[ProbeStep, ...]) -> Probe:
    """The probe with a canary beside the sandbox: it hears the first client, which must be the control."""
    word = uuid.uuid4().hex
    found = ("192.0.2.1", 9) if isinstance(remote, str) else (remote.address, remote.port)
    return Probe(
        "network/beside",
        Family.NETWORK,
        "other Pods are unreachable: only a client without a policy connects to a listener there",
        (step(claim, "tcp", *found, word),),
        control,
        None if isinstance(remote, str) else lambda: _silent_there(remote, word),
        skip=remote if isinstance(remote, str) else "",
    )


def _silent_there(remote: RemoteCanary, word: str) -> str | None:
    control_word = uuid.uuid4().hex
    try:
        first = remote.first_word(control_word)
    except SandwrightError as error:
        return f"the listener beside the sandbox was not tried: {error}"
    if first == control_word:
        return None
    message = "was reached" if word in first else "hears nothing, not even from a client without a policy"
    return f"the listener beside the sandbox {message}"


def _proxy_probe(subject: ProofSubject) -> Probe:
    """The probe that the proxy answers, and refuses an unlisted host.

    An allowed host would need the Internet.
    """
    if _beside_proxy(subject):
        environment = proxy_environment(subject.policy.environment.set, host=PROXY)
    else:
        environment = sandbox_environment(subject.policy)
    where = urlsplit(environment.get("http_proxy", ""))
    name = f"{subject.word}.invalid:443"
    request = f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n\r\n"
    return _probe(
        "proxy",
        "the proxy is reachable and refuses a host that the policy does not list",
        ProbeStep(attempt("tcp", where.hostname or "", where.port or 0, request), "works", holds=b" 403 "),
    )


def _beside_proxy(subject: ProofSubject) -> bool:
    """Whether the sandbox is in an engine's network together with only the proxy."""
    return bool(subject.engine) and subject.policy.network.mode == "proxy"


def _interface_lines() -> Iterator[bytes]:
    yield from (f" {name}:".encode() for _, name in socket.if_nameindex() if name != "lo")


def _check_silence(subject: ProofSubject, word: str) -> str | None:
    """Check that the canaries did not hear a word from inside, and that each hears the host."""
    listeners, control_word = subject.listeners, uuid.uuid4().hex
    with socket.create_connection(("127.0.0.1", listeners.loopback), timeout=5) as end:
        end.sendall(control_word.encode())
    if not _soon(lambda: listeners.heard(control_word)):
        return "the canary listener does not hear the host's own message"
    return "a listener of the host was reached" if listeners.heard(word) else None


def _soon(true: Callable[[], bool]) -> bool:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if true():
            return True
        time.sleep(0.005)
    return False


def _localhost_probes(subject: ProofSubject) -> Iterator[Probe]:
    listeners, word, other = subject.listeners, uuid.uuid4().hex, uuid.uuid4().hex
    control = (step("works", "pair"),) if subject.linux else ()
    host = not subject.policy.network.makes_sockets and subject.linux
    if subject.linux and (host or subject.policy.network.has_own_sockets):
        yield _socket_probe(subject, host=host)
    yield _probe(
        "unix-socket",
        "Unix sockets of the host in a readable directory are unreachable",
        step("unix.host" if host else "unix.unlisted", "unix", listeners.path, word),
        controls=(*control, step("works", "read", subject.fixture.read / "plain")),
        check=lambda: _check_silence(subject, word),
    )
    if not subject.policy.network.unix_sockets:
        third = uuid.uuid4().hex
        reached = subject.declaration.of("network.later-sockets").level == "partly" and not host
        yield _probe(
            "later-socket",
            "a Unix socket created later in a readable directory is reachable only as declared",
            step("unix.host" if host else "unix.later", "unix", listeners.later, third),
            controls=(*control, step("works", "read", subject.fixture.read / "plain")),
            check=None if reached else lambda: _check_silence(subject, third),
        )
        fourth = uuid.uuid4().hex
        yield _probe(
            "project-socket",
            "a Unix socket that the host creates later in a writable directory is reachable only as declared",
            step("unix.host" if host else "unix.written", "unix", listeners.written, fourth),
            controls=(*control, step("works", "read", subject.fixture.write / "plain")),
            check=None if reached else lambda: _check_silence(subject, fourth),
        )
    if subject.linux:
        yield _probe(
            "abstract-socket",
            "abstract Unix sockets of the host are unreachable",
            step("unix.host" if host else "unix.abstract", "abstract", listeners.abstract, other),
            controls=control,
            check=lambda: _check_silence(subject, other),
        )


def _socket_probe(subject: ProofSubject, *, host: bool) -> Probe:
    """The probe of Unix sockets that programs make inside; `host`: they can make none."""
    none = "unix.host" if subject.policy.network.own_sockets else "unix.none"
    made, shared, nameless = (none,) * 3 if host else ("unix.own", "unix.own.temporary", "unix.own.abstract")
    temporary, name = subject.policy.filesystem.tmp_path, uuid.uuid4().hex
    there = subject.policy.is_path_writable(temporary)
    return _probe(
        "own-sockets",
        "programs can create Unix sockets if the policy allows it",
        *((step(shared, "own-unix", f"{temporary}/{name}"),) if there else ()),
        step(made, "own-unix", subject.fixture.write / "own-socket"),
        step(nameless, "own-abstract", f"sandwright-{name}"),
        controls=(step("works", "pair"),),
    )
