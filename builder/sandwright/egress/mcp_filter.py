"""The process that reads MCP messages: between haproxy's two sides, for the paths of `mcp` rules.

haproxy has checked the request and sends it here. A message that passes goes through the relay back to
haproxy, which adds the secret, masks it in the answer, and speaks TLS with the host. The filter never has a
secret. Each request has a separate connection. Its first line (PROXY protocol) names the host and proves that
haproxy sent it, because only haproxy knows the line. Two headers report a refusal to haproxy, for its log.

The filter is a separate program, restricted as haproxy is: it can read Python's files, write nothing, and
connect only to the relay's port. It reads its settings from standard input.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import re
import socket
import sys
import threading

from sandwright.documents import strictjson
from sandwright.documents.record import decode_record
from sandwright.egress.mcp_wire import PATIENCE, Head, Header, Wire, WireFault, chunk, write_head
from sandwright.mcp.events import EventFilter
from sandwright.mcp.messages import ClientMessage, McpRefusal, client_message, server_message
from sandwright.mcp.rules import Entrance, FilteredHost, FilterSettings
from sandwright.render.proxyfacts import FILTER_CONNECTIONS

MAX_REQUEST = 4 << 20
"""Bytes of a message of a client."""

MAX_ANSWER = strictjson.MAX_BYTES
"""Bytes of a message of a server."""

REASON, TOOL = "x-sandwright-reason", "x-sandwright-tool"
"""Headers for haproxy's log. haproxy removes them from the answer."""

_GREETING = 108
_DROPPED = (
    *("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
    *("content-length", "content-type", "content-encoding", "expect", "accept-encoding", REASON, TOOL),
)
"""Headers that apply to one connection only, or that the filter writes itself."""

_MIRRORED = ("mcp-method", "mcp-name")
_JSON = re.compile(r'application/json *(; *charset="?utf-8"?)?', re.IGNORECASE)
_DECIDING = threading.Lock()
"""One message is read at a time, so that memory is bounded by the largest."""

_SMALL = 64 << 10
"""Bytes that each connection may hold of a message that has not ended."""

_LARGE = threading.Semaphore(4)
"""The connections that may hold more; others wait. The limits of the sandbox do not count this memory."""


class _Holding(threading.local):
    """Whether this thread's connection is among those that may hold more."""

    _is_large = False

    def hold(self, size: int) -> None:
        """Wait for a place if the message is larger than `_SMALL`; give the place back otherwise."""
        if size > _SMALL and not self._is_large:
            _LARGE.acquire()
        elif size <= _SMALL and self._is_large:
            _LARGE.release()
        self._is_large = size > _SMALL


_HOLDING = _Holding()


def main() -> None:
    """Serve the listening socket (its descriptor is the last argument) until the parent ends."""
    settings = decode_record(FilterSettings, sys.stdin.buffer.read())
    listener = socket.socket(fileno=int(sys.argv[-1]))
    listener.setblocking(True)
    os.write(1, b"ready\n")
    places = threading.Semaphore(FILTER_CONNECTIONS)
    while True:
        places.acquire()
        connection, _ = listener.accept()
        threading.Thread(target=_serve_greeted, args=(connection, settings, places), daemon=True).start()


def _serve_greeted(connection: socket.socket, settings: FilterSettings, places: threading.Semaphore) -> None:
    with contextlib.closing(connection):
        try:
            serve_connection(connection, settings)
        except (OSError, WireFault):
            """haproxy answers in our place."""
        finally:
            _HOLDING.hold(0)
            places.release()


def serve_connection(connection: socket.socket, settings: FilterSettings, patience: float = PATIENCE) -> None:
    """Answer the one request of a connection. Raise OSError or WireFault where the connection just ends.

    `patience` is how many seconds it waits for more of the request.
    """
    connection.settimeout(patience)
    entrance = _greeted(connection, settings)
    host = entrance.host
    client = Wire(connection)
    head = client.head()
    method, _, rest = head.start.partition(" ")
    target = rest.removesuffix(" HTTP/1.1")
    try:
        message = _passing_message(client, head, host, method, target)
    except McpRefusal as refusal:
        _refuse(connection, refusal, f"{method} https://{host.name}{target.partition('?')[0]}")
        return
    with socket.create_connection(("127.0.0.1", settings.out), timeout=PATIENCE) as onward:
        onward.sendall(entrance.onward.encode() + _onward_request(head, method, target, message))
        onward.settimeout(None)  # a stream may be silent for long
        connection.settimeout(None)
        tool = "" if message is None else message.tool
        del message
        _HOLDING.hold(0)
        _send_answer(connection, Wire(onward, connection), host, target, tool)


def _greeted(connection: socket.socket, settings: FilterSettings) -> Entrance:
    """The host that the first line names, byte by byte: nothing behind it is taken."""
    sent = b""
    while not sent.endswith(b"\n") and len(sent) < _GREETING:
        byte = connection.recv(1)
        if not byte:
            raise WireFault("it sent nothing")
        sent += byte
    for entrance in settings.entrances:
        if hmac.compare_digest(sent, entrance.greeting.encode()):
            return entrance
    raise WireFault("it is not haproxy")


def _passing_message(
    client: Wire, head: Head, host: FilteredHost, method: str, target: str
) -> ClientMessage | None:
    """The message of a request; None for GET and DELETE, which have none. Raise McpRefusal."""
    body = bytearray()
    for part in client.body(head):
        body += part
        _HOLDING.hold(len(body))
        if len(body) > MAX_REQUEST:
            raise McpRefusal("message", f"the message is longer than {MAX_REQUEST >> 20} MiB")
    if not host.has_path(target):
        raise McpRefusal("message", "no mcp rule has this path")
    if method in ("GET", "DELETE"):
        if body or head.values("content-encoding"):
            raise McpRefusal("message", f"{method} has a body")
        _check_mirrors(head, None)
        return None
    if method != "POST":
        raise McpRefusal("message", f"MCP has no {method}")
    _check_form(head)
    with _DECIDING:
        message = client_message(bytes(body), lambda tool: host.allows(target, tool))
    _check_mirrors(head, message)
    return message


def _check_form(head: Head) -> None:
    """Refuse a body that the server might take for something else than JSON."""
    kinds = head.values("content-type")
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0]):
        raise McpRefusal("message", "the content type is not application/json")
    if any(each.lower() != "identity" for each in head.values("content-encoding")):
        raise McpRefusal("message", "the message is compressed")


def _check_mirrors(head: Head, message: ClientMessage | None) -> None:
    """Refuse headers that name another method or tool than the message (MCP 2026-07-28, transports)."""
    sent = {"mcp-method": message.method, "mcp-name": message.tool} if message else {}
    for name, value in head.headers:
        mirrored = re.sub("[^a-z0-9]", "-", name)
        if mirrored in _MIRRORED and (name != mirrored or sent.get(name) != value):
            raise McpRefusal("message", f"the header {name} and the message differ")


def _onward_request(head: Head, method: str, target: str, message: ClientMessage | None) -> bytes:
    headers = [*head.without(_DROPPED), ("connection", "close")]
    if message is None:
        return write_head(f"{method} {target} HTTP/1.1", headers)
    headers += [("content-type", "application/json"), ("content-length", str(len(message.text)))]
    return write_head(f"{method} {target} HTTP/1.1", headers) + message.text


def _refuse(connection: socket.socket, refusal: McpRefusal, request: str) -> None:
    """The answer to a request: its error where it has an id, else 403 as for every refused request."""
    text = refusal.answer
    start, kind = "HTTP/1.1 200 OK", "application/json"
    if text is None:
        start, kind = "HTTP/1.1 403 Forbidden", "text/plain"
        text = f"sandwright: refused: {request}: {_plain(str(refusal), 400)}\n".encode()
    noted = [(REASON, refusal.reason), (TOOL, _plain(refusal.what, 129))]
    _send_whole(connection, start, [("content-type", kind), ("cache-control", "no-store"), *noted], text)


def _plain(text: str, most: int) -> str:
    return "".join(each if each.isascii() and each.isprintable() else "?" for each in text[:most])


def _send_whole(connection: socket.socket, start: str, headers: list[Header], text: bytes) -> None:
    ends = [("content-length", str(len(text))), ("connection", "close")]
    connection.sendall(write_head(start, [*headers, *ends]) + text)


def _send_answer(connection: socket.socket, server: Wire, host: FilteredHost, target: str, tool: str) -> None:
    """Send on the part of an answer that passes.

    If it is neither JSON nor a stream of events, its body is removed.
    """
    head = server.head()
    while head.start.startswith("HTTP/1.1 1") and not head.start.startswith("HTTP/1.1 101"):
        head = server.head()
    status = int(head.start.split(" ")[1]) if re.fullmatch(r"HTTP/1\.1 [2-5]\d\d( .*)?", head.start) else 0
    kinds = [each.partition(";")[0].strip().lower() for each in head.values("content-type")]
    plain = all(each.lower() == "identity" for each in head.values("content-encoding"))
    kind = kinds[0] if len(kinds) == 1 and plain and status not in (204, 304) else ""
    headers = head.without(_DROPPED)
    if tool:
        headers.append((TOOL, tool))
    if kind == "text/event-stream":
        headers += [("content-type", kind), ("transfer-encoding", "chunked"), ("connection", "close")]
        connection.sendall(write_head(head.start, headers))
        _send_events(connection, server, head, host, target)
        return
    text = b""
    if kind == "application/json":
        text = _answered_message(server, head, host, target, status)
        headers.append(("content-type", kind))
    if status in (0, 204, 304):
        connection.sendall(write_head(head.start if status else "HTTP/1.1 502 Bad Gateway", headers))
    else:
        _send_whole(connection, head.start, headers, text)


def _answered_message(server: Wire, head: Head, host: FilteredHost, target: str, status: int) -> bytes:
    """Give the part that passes of an answer in JSON. Raise WireFault for a success that is not a message."""
    body = bytearray()
    for part in server.body(head, until_end=True):
        body += part
        _HOLDING.hold(len(body))
        if len(body) > MAX_ANSWER:
            raise WireFault("the answer is too long")
    if not body:
        return b""
    try:
        with _DECIDING:
            text = server_message(bytes(body), lambda tool: host.allows(target, tool))
    except ValueError as fault:
        if status < 400:
            raise WireFault(str(fault)) from None
        return b""  # such as an error of OAuth
    return text or b""


def _send_events(
    connection: socket.socket, server: Wire, head: Head, host: FilteredHost, target: str
) -> None:
    """Send on the events of a stream that pass. Raise WireFault at one that is not a message."""

    def rewrite(data: bytes) -> bytes | None:
        with _DECIDING:
            return server_message(data, lambda tool: host.allows(target, tool))

    events = EventFilter(rewrite)
    for part in server.body(head, until_end=True):
        try:
            passing = events.feed(part)
        except ValueError as fault:
            raise WireFault(str(fault)) from None
        if passing:
            connection.sendall(chunk(passing))
        del passing, part
        _HOLDING.hold(events.size)
    connection.sendall(chunk(b""))
