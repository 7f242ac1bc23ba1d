"""Proves the inspecting proxy of this machine by pairs of requests: rules allow one and refuse the other.

The proxy is started for an invented host, so that no request leaves the machine: a request that passes is
answered with 503, because squid refuses the address of the host's name. Connections reach the proxy in the
same way as those of programs inside.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sandwright.egress import Proxy, proxy
from sandwright.egress.inspection import FOLDER, MAPS, set_values
from sandwright.policy.http_credentials import secret_key
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.runtime.scratch import scratch_directory
from sandwright.verify import signed_requests, tool_requests
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Family
from sandwright.verify.verdict import Verdict

Resolve = Callable[[Sequence[str]], ResolvedPolicy]

HOST = "verify.sandwright.invalid"
"""No host has this name (RFC 6761, 6.4)."""

SETTINGS = (
    f"network.http=[{{host: {HOST}, methods: [GET], paths: ['/allowed/*']}},"
    f" {{host: {HOST}, git: read, repos: [acme/tool]}}, {tool_requests.RULES},"
    f" {signed_requests.RULES}]",
    "network.allow=[]",
    f"credentials.http=[{{host: {HOST}, header: x-api-key, from: 'env:NONE', variable: NONE}},"
    f" {signed_requests.CREDENTIAL}]",
)
"""Settings of a run for the proxy that is proved."""

ALLOWED, SECRET, REFUSED, TOOLS, SIGNATURE = (
    f"network/requests-{name}" for name in ("allowed", "secret", "refused", "tools", "signature")
)

_SECRET, _PLACEHOLDER = "secret-of-verify", "placeholder-of-verify"
_TIMEOUT = 20.0
_PASSED = 503
_AT_A_TIME = 8

_PATHS = (
    "/other", "/allowed", "/allowed/x/y", "/allowed/../other", "/other/../allowed/x", "/allowed/./x",
    "/allowed/..", "/allowed//x", "//allowed/x", "/allowed/%2e%2e", "/allowed/%2E", "/allowed/x%2fy",
    "/allowed/x%5cy", "/allowed/x;y", "/allowed/%252e", "/allowed/%00", "/allowed/%0a", "/allowed/%7f",
    "/allowed/%61", "/allowed/%c0%ae", "/allowed/\\x", "/allowed/%e0%80%ae", "/allowed/%zz", "/allowed/%",
    "/ALLOWED/x", "/allowed%2fx", "/acme/tool/git-receive-pack", "/acme/tool/info/refs", "*",
    "/acme/tool/info/refs?service=git-receive-pack", "/acme/other/info/refs?service=git-upload-pack",
    "/allowed/x?_method=DELETE", "https://other.invalid/allowed/x", "/allowed/x?_method=put",
    "/allowed/%2e%2e/other", "/allowed/x/..%2f..", "/allowed/%u002e", "/allowed/x#y", "/allowed/\u00e9",
    "/./allowed/x", "/allowed/x/", "/allowed/x/.", "/allowed/..;/other", "/allowed/x%5c..",
    "/allowed/%f8%88%80%80%80", "/allowed/x%09", "/allowed/x%1b", "/allowed/x%0d%0aHost:%20a",
    "//other.invalid/allowed/x", "http://other.invalid/allowed/x", f"https://{HOST}:80/allowed/x",
    "/acme/tool/../other/info/refs?service=git-upload-pack", "/acme/tool.git/git-receive-pack",
    "/acme/tool/info/refs?service=git-upload-pack&service=git-receive-pack",
    "/acme/tool/info/refs?service=git-receive-pack&service=git-upload-pack",
    "/acme/tool/info/refs?service=GIT-UPLOAD-PACK", "/acme/tool/info/refs/?service=git-upload-pack",
    "/ACME/tool/info/refs?service=git-upload-pack", "/acme/toolx/info/refs?service=git-upload-pack",
    "/acme/tool/objects/info/packs", "/acme/tool/info/lfs/objects/batch", "/acme/tool/HEAD", "allowed/x",
    "/allowed/x%", "/allowed/x%2", "/allowed/x?x-http-method-override=PUT", "/allowed/x|y", '/allowed/x"y',
    "/allowed/<x>", "/allowed/{x}", "/allowed/x^",
)  # fmt: skip
"""Targets of GET that no rule allows, or that are ambiguous."""

_METHODS = (
    "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "Get", "GETX", "GET,",
    "PROPFIND", "MKCOL", "COPY", "MOVE", "LOCK", "LINK", "PURGE", "SEARCH", "REPORT", "PRI",
)  # fmt: skip

_HEADERS = (
    "Host: other.invalid", f"Host: {HOST}.", f"Host: {HOST}:80", f"Host: x.{HOST}",
    f"Host: {HOST}\r\nHost: other.invalid", "Upgrade: websocket\r\nConnection: upgrade",
    "Upgrade: h2c\r\nConnection: upgrade", "X-HTTP-Method-Override: DELETE", "X-Method-Override: PUT",
    "X-HTTP-Method: DELETE", "Content-Length: 1\r\nContent-Length: 2", "Transfer-Encoding: x",
    f"Host: other.invalid\r\nHost: {HOST}", f"Host: {HOST}\r\n\tother.invalid", f"Host: {HOST}@other.invalid",
    "Host: ", f"Host: {HOST}/", "Upgrade: websocket", "Upgrade: TLS/1.0\r\nConnection: upgrade",
    "Upgrade: h2c, websocket\r\nConnection: upgrade", "X-Http-Method-Override: GET",
    "X_HTTP_Method_Override: PUT", "X-Original-URL: /other", "X-Rewrite-URL: /other",
    "X-Forwarded-Prefix: /other", "Transfer-Encoding: chunked, identity", "Transfer-Encoding : chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Content-Length: -1",
    "Content-Length: +1", "Content-Length: 0x1", "Content-Length: 1, 2", "Bad Header: x", "X-A: \x00",
    "X-A: \x01",
)  # fmt: skip
"""Headers instead of `Host`, or in addition to it."""

_KEYS = ("x-api-key: of-somebody-else", f"x-api-key: {_PLACEHOLDER}\r\nx-api-key: x", "x-api-key: Bearer x")


@dataclass(frozen=True)
class _Attempted:
    """One request: its first line or header, and the status of the answer, 0 for none."""

    what: str
    status: int

    def __str__(self) -> str:
        return f"{self.what!r}: {self.status or 'closed'}"


def request_outcomes(resolve: Resolve, method: str) -> Iterator[ProbeOutcome]:
    """The verdicts on the inspecting proxy of this machine. Raise SandwrightError where none starts."""
    policy = resolve(SETTINGS)
    with scratch_directory() as root:
        hosts = root / "hosts"
        hosts.write_text(
            f"192.0.2.1 {HOST} {tool_requests.HOST} {signed_requests.HOST}\n"
        )  # squid refuses this address, so no request leaves
        yield from _outcomes_of(policy, method, hosts)


def _outcomes_of(policy: ResolvedPolicy, method: str, hosts: Path) -> Iterator[ProbeOutcome]:
    with proxy(policy, hosts_file=hosts) as running:
        keys_of = [secret_key(each) for each in policy.credentials.http]
        for name, value, signing in zip(MAPS, (_SECRET, _PLACEHOLDER), signed_requests.KEYS, strict=True):
            set_values(running.directory / FOLDER, name, dict(zip(keys_of, (value, signing), strict=True)))
        git = _raw_request("/acme/tool/info/refs?service=git-upload-pack")
        allowed = _send_all(running, [_raw_request(), git])
        refused = _send_all(running, _refused_requests())
        keys = _send_all(running, (_raw_request(header=each) for each in _KEYS))
        tools = [
            _send_all(running, requests, tool_requests.HOST)
            for requests in (tool_requests.allowed_tool_requests(), tool_requests.refused_tool_requests())
        ]
        signed = [
            _send_all(running, requests, signed_requests.HOST)
            for requests in (
                signed_requests.allowed_signed_requests(),
                signed_requests.refused_signed_requests(),
            )
        ]
        allowed_key, again = _send_all(
            running, [_raw_request(header=f"x-api-key: {_PLACEHOLDER}"), _raw_request()]
        )
    controls = (*allowed, allowed_key, *tools[0], *signed[0], again)
    works = all(each.status == _PASSED for each in controls)
    control = "control: " + "; ".join(map(str, controls))
    passed = sum(each.status == _PASSED for each in (*allowed, again))
    yield _request_outcome(
        method, ALLOWED, "requests that rules allow are sent on", allowed, held=passed == 3, control=control
    )
    for name, about, attempts in (
        (REFUSED, f"{len(refused)} requests that no rule allows, or with two readings, are refused", refused),
        (TOOLS, f"{len(tools[1])} messages to an MCP server that call no listed tool are refused", tools[1]),
        (SECRET, "the secret goes to requests with the placeholder or without the header", keys),
        (SIGNATURE, "requests are signed with a key only if the placeholder has signed them", signed[1]),
    ):
        held = all(each.status != _PASSED and not 200 <= each.status < 300 for each in attempts)
        yield _request_outcome(method, name, about, attempts, held=held, control=control, works=works)


def _request_outcome(
    method: str,
    name: str,
    about: str,
    attempts: Sequence[_Attempted],
    *,
    held: bool,
    control: str,
    works: bool = True,
) -> ProbeOutcome:
    word = "sent on" if name == ALLOWED else "refused"
    return ProbeOutcome(
        probe=name,
        method=method,
        family=Family.NETWORK,
        verdict=(Verdict.PASS if works else Verdict.INCONCLUSIVE) if held else Verdict.FAIL,
        expected=word,
        observed=word if held else "; ".join(map(str, attempts)),
        evidence="\n".join((*map(str, attempts), control)),
        about=about,
    )


def _refused_requests() -> Iterator[bytes]:
    yield from (_raw_request(path) for path in _PATHS)
    yield from (_raw_request(method=method) for method in _METHODS)
    for header in _HEADERS:
        yield _raw_request(header=header, host=not header.startswith("Host:"))


def _raw_request(
    target: str = "/allowed/x", *, method: str = "GET", header: str = "", host: bool = True
) -> bytes:
    lines = (f"{method} {target} HTTP/1.1", f"Host: {HOST}" if host else "", header, "Connection: close")
    return ("\r\n".join(filter(None, lines)) + "\r\n\r\n").encode()


def _send_all(running: Proxy, requests: Iterable[bytes], host: str = HOST) -> list[_Attempted]:
    """Send requests, some at a time, and give their answers."""
    settings = ssl.create_default_context(cafile=str(Path(running.authorities or "") / "authorities.pem"))
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(lambda each: _send_request(running, each, host, settings), requests))


def _send_request(running: Proxy, request: bytes, host: str, settings: ssl.SSLContext) -> _Attempted:
    """Send a request through a tunnel, as programs inside do, and give the status.

    A refused message counts as 403: its own status is 200, as clients of MCP expect.
    """
    first = request.decode("latin-1").split("\r\n")
    what = " ".join(each for each in first if each != "Connection: close").strip()[:400]
    try:
        with _open_tunnel(running, host, settings) as connection:
            connection.sendall(request)
            answer = b""
            while data := connection.recv(65536):
                answer += data
    except OSError:
        return _Attempted(what, 0)
    found = re.match(rb"HTTP/1\.[01] ([0-9]{3})", answer)
    refused = b'"error":{' in answer and b"sandwright: refused: " in answer
    return _Attempted(what, 403 if refused else int(found[1]) if found else 0)


def _open_tunnel(running: Proxy, host: str, settings: ssl.SSLContext) -> ssl.SSLSocket:
    port, _, greeting = (running.directory / "greeting").read_bytes().partition(b"\n")
    connection = socket.create_connection(("127.0.0.1", int(port)), timeout=_TIMEOUT)
    try:
        connection.sendall(greeting + f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = connection.recv(1)
            if not byte:
                raise ConnectionError("no tunnel")
            head += byte
        return settings.wrap_socket(connection, server_hostname=host)
    except OSError:
        connection.close()
        raise
