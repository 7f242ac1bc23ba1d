"""Carries the messages between a client of MCP and the server in the sandbox (`mcp.tools`).

The client has this process's standard input and output, the server gets pipes in their place, and
`mcp.stdio.StdioFilter` decides on each line between them. Standard error is the server's own.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import select
import stat
import termios
import time
from collections.abc import Collection
from functools import partial

from sandwright.errors import UsageError
from sandwright.mcp.stdio import MessageObserver, StdioFilter
from sandwright.policy.mcp_rules import lists_tool
from sandwright.streams import Streams, fill_standard, warn

_BLOCK = 65536
_PATIENCE = 2.0
"""Seconds for which a client may read nothing after the server's end; then the rest of its output is
dropped."""


def check_client_streams(*, detached: bool) -> None:
    """Raise UsageError if the standard streams cannot lead to a client of MCP."""
    if detached:
        raise UsageError("mcp.tools: a detached run has no client of MCP at its standard input")
    with contextlib.suppress(OSError):  # a closed one is /dev/null to the command
        if os.isatty(0):
            raise UsageError("mcp.tools: standard input is a terminal, and has to be a client of MCP")
        output, errors = os.fstat(1), os.fstat(2)
        if not stat.S_ISCHR(output.st_mode) and os.path.samestat(output, errors):
            raise UsageError(
                "mcp.tools: standard error is the client's standard output, too: the server could write past "
                "the rules there"
            )


def open_streams(tools: Collection[str], observer: MessageObserver) -> McpStreams:
    """Open the streams of a server whose tools are filtered."""
    fill_standard()
    return McpStreams(StdioFilter(partial(lists_tool, tools), observer))


class McpStreams(Streams):
    """The standard streams of a server of MCP."""

    def __init__(self, messages: StdioFilter) -> None:
        super().__init__(keys=False, descriptors=(2,))
        self._messages = messages
        read, self._server_input = os.pipe()
        self._server_output, write = os.pipe()
        self._give(0, read)
        self._give(1, write)
        os.set_blocking(self._server_input, False)
        os.set_blocking(self._server_output, False)
        self._client_open = True
        self._fault = ""

    def selected(self) -> tuple[list[int], list[int]]:
        """The descriptors to wait for. A side is read only when its earlier data has been passed on."""
        reads, writes = super().selected()
        to_server, to_client = self._messages.to_server, self._messages.to_client
        if self._client_open and not to_server and len(to_client) < _BLOCK:
            reads.append(0)
        if self._server_output >= 0 and not to_client and len(to_server) < _BLOCK:
            reads.append(self._server_output)
        writes += [self._server_input] if to_server else []
        writes += [1] if to_client else []
        return reads, writes

    def copy(self, ready: Collection[int], writable: Collection[int]) -> None:
        """Pass on data without waiting."""
        super().copy(ready, writable)
        if 0 in ready:
            self._read_client()
        if self._server_output in ready:
            self._read_server()
        if self._server_input in writable:
            self._write_server()
        if 1 in writable:
            self._write_client()
        if not self._client_open and not self._messages.to_server:
            self._close_server_input()

    def _read_client(self) -> None:
        try:
            data = os.read(0, _BLOCK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._client_open = bool(data)
        self._messages.read_client(data)
        if self._server_input < 0:
            self._messages.to_server.clear()

    def _read_server(self) -> int:
        """Take a block of the server's output, and give its length."""
        try:
            data = os.read(self._server_output, _BLOCK)
        except BlockingIOError:
            return 0
        self._messages.read_server(data)
        if not data:
            self._close_server_output()
        if self._server_input < 0:
            self._messages.to_server.clear()
        return len(data)

    def _write_server(self) -> None:
        try:
            del self._messages.to_server[: os.write(self._server_input, self._messages.to_server)]
        except BlockingIOError:
            pass
        except OSError:  # the server reads no more
            self._messages.to_server.clear()
            self._client_open = False

    def _write_client(self) -> None:
        """Write no more than a pipe accepts at once: its client may have stopped reading."""
        try:
            del self._messages.to_client[: os.write(1, self._messages.to_client[: select.PIPE_BUF])]
        except BlockingIOError:
            pass
        except OSError as error:
            self._fault = self._fault or error.strerror or str(error)
            self._messages.to_client.clear()
            self._close_server_output()

    def close(self) -> bool:
        """At the server's end, pass on its last output. Give False if some of it could not be written."""
        self.started()
        self._close_server_input()
        waiting = array.array("i", [0])
        if self._server_output >= 0:
            fcntl.ioctl(self._server_output, termios.FIONREAD, waiting)
        more = waiting[0]
        while self._server_output >= 0 and more > 0 and (taken := self._read_server()):
            more -= taken
        self._messages.read_server(b"")
        self._flush_client()
        self._close_server_output()
        if self._fault:
            warn(f"cannot write to standard output: {self._fault}")
        return super().close() and not self._fault

    def _flush_client(self) -> None:
        until = time.monotonic() + _PATIENCE
        while (before := len(self._messages.to_client)) and not self._fault:
            if select.select([], [1], [], max(0.0, until - time.monotonic()))[1]:
                self._write_client()
            if len(self._messages.to_client) < before:
                until = time.monotonic() + _PATIENCE
            elif time.monotonic() > until:
                self._fault = "its reader does not read"

    def _close_server_input(self) -> None:
        if self._server_input >= 0:
            os.close(self._server_input)
            self._server_input = -1

    def _close_server_output(self) -> None:
        if self._server_output >= 0:
            os.close(self._server_output)
            self._server_output = -1
