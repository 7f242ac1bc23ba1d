"""A program in a container of a running Pod, whose streams are channels of one WebSocket.

The subprotocol is `v4.channel.k8s.io` (KEP-4006): a message is the number of a channel, and bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from sandwright.documents import strictjson
from sandwright.errors import HostError
from sandwright_kubernetes.connection import ApiRefused, ApiUnreachable, Connection
from sandwright_kubernetes.objects import field, rows, text

STDIN, STDOUT, STDERR, STATUS, SIZE = range(5)
SILENCE = 120.0
"""Seconds without a message after which a connection is given up."""

LARGEST = 1 << 20
"""Bytes of one message; the kubelet sends 32 KiB."""


class Channels:
    """A connection to a program's streams."""

    def __init__(self, socket: Any) -> None:  # noqa: ANN401 - the library has no types
        """`socket` is a `websocket.WebSocket`."""
        self._socket = socket

    def send(self, channel: int, data: bytes) -> None:
        """Send to a channel. Raise ApiUnreachable."""
        with _explain_errors():
            self._socket.send_binary(bytes((channel,)) + data)

    def ping(self) -> None:
        """Have the other side give a sign of life. Raise ApiUnreachable."""
        with _explain_errors():
            self._socket.ping()

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """The messages, to the end. Raise ApiUnreachable if the connection breaks."""
        from websocket import ABNF  # noqa: PLC0415 - comes with the client

        while True:
            with _explain_errors():
                kind, data = self._socket.recv_data()
            if kind == ABNF.OPCODE_CLOSE:
                return
            if len(data) > LARGEST:
                raise HostError("the API server sent a message that is too large")
            if data and kind in (ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT):
                yield data[0], bytes(data[1:])


@contextlib.contextmanager
def open_program(
    connection: Connection, path: str, query: Mapping[str, str | Sequence[str]], *, silence: float = SILENCE
) -> Iterator[Channels]:
    """The streams of a program that a path of the API leads to, for the length of a `with`.

    `query` says which: `container`, `command`, `stdin`, `stdout`, `stderr`, `tty`.
    Raise ApiRefused, ApiUnreachable.
    """
    from kubernetes.stream.ws_client import create_websocket  # noqa: PLC0415 - an extra
    from websocket import WebSocketBadStatusException  # noqa: PLC0415 - comes with it

    configuration = connection.configuration
    headers = {"sec-websocket-protocol": "v4.channel.k8s.io"}
    for each in configuration.auth_settings().values():
        if each["in"] == "header" and each["value"]:
            headers[str(each["key"]).lower()] = each["value"]
    address = configuration.host.replace("http", "ws", 1) + f"{path}?{urlencode(query, doseq=True)}"
    try:
        with _explain_errors():
            socket = create_websocket(configuration, address, headers)
    except WebSocketBadStatusException as error:
        raise ApiRefused(error.status_code, "", str(error)[:300]) from error
    try:
        socket.settimeout(silence)
        yield Channels(socket)
    finally:
        with contextlib.suppress(Exception):
            socket.close(timeout=1)


def exit_status(data: bytes) -> int:
    """The exit status that a message of the channel STATUS holds. Raise HostError where it holds none."""
    try:
        found = strictjson.loads_lenient(data)
    except (ValueError, RecursionError) as error:
        raise HostError("the exit status of a program is not JSON") from error
    if text(found, "status") == "Success":
        return 0
    for cause in rows(found, "details", "causes"):
        if text(cause, "reason") == "ExitCode" and text(cause, "message").isdecimal():
            return int(text(cause, "message")[:6])
    raise HostError(f"the program was not run: {str(field(found, 'message'))[:300]}")


@contextlib.contextmanager
def _explain_errors() -> Iterator[None]:
    from websocket import WebSocketBadStatusException, WebSocketException  # noqa: PLC0415 - an extra

    try:
        yield
    except WebSocketBadStatusException:
        raise
    except (WebSocketException, OSError) as error:
        raise ApiUnreachable(f"the connection to a program in the Pod broke off: {error}") from error
