"""Decides on messages of MCP: which of a client and of a server pass when a policy lists tools.

A message is one JSON-RPC object. Parsers differ on duplicate keys, on the case of keys and on batches. Such a
message is refused. A message that passes is serialized again, so that the other side gets exactly the message
that was checked here.

| a client sends                                         | passes                                         |
|--------------------------------------------------------|------------------------------------------------|
| `initialize`, `server/discover`, `ping`, `tools/list`  | yes: a client needs them                       |
| `tools/call`                                           | if its tool is listed                          |
| `notifications/` initialized, cancelled, progress,     | yes: they are about requests that passed       |
| roots/list_changed                                     |                                                |
| an answer                                              | `{}`, as to a ping, or an error                |
| `resources/*`, `prompts/*`, `completion/complete`      | no: they read what no list of tools names      |
| `subscriptions/listen`, `logging/setLevel`, `tasks/*`  | no: calling tools does not need them           |
| all else                                               | no                                             |

| a server sends         | passes                                                                         |
|------------------------|--------------------------------------------------------------------------------|
| an answer              | yes; of a list of tools in it, the listed ones. An error in its place where it |
|                        | asks the client for something (`inputRequests`, revision 2026-07-28)           |
| `notifications/*`      | yes                                                                            |
| `ping`                 | yes                                                                            |
| other requests         | no: sampling, elicitation and roots use the client, and no tool is listed      |

Every answer may contain the list, for any request: on another HTTP stream, or after a resumption, it is the
same.

Sources: the specification of MCP, revisions 2025-03-26 to 2026-07-28; JSON-RPC 2.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Literal

from sandwright.documents import strictjson
from sandwright.documents.fields import Fields
from sandwright.errors import ArchiveRefused
from sandwright.mcp.methods import CALL, NOTIFICATIONS, REQUESTS

Allows = Callable[[str], bool]
"""Whether a tool is listed."""

RequestId = str | int

RefusalReason = Literal["message", "call", "tool"]
"""The reason to refuse a message: it is ambiguous, its method does not pass, its tool is not listed."""

_MAX_ID = 256
_INVALID_REQUEST, _METHOD_NOT_FOUND, _INVALID_PARAMS = -32600, -32601, -32602

_CLIENT: Fields = {
    **dict.fromkeys(("jsonrpc", "id", "method", "result", "error")),
    "params": dict.fromkeys(("name", "arguments", "_meta")),
}
_SERVER: Fields = {
    **dict.fromkeys(("jsonrpc", "id", "method", "params", "error")),
    "result": {"tools": {"name": None}, **dict.fromkeys(("resultType", "inputRequests"))},
}
_INPUT_REQUESTS = {"inputRequests", "input_requests"}
_RESULT_TYPES = ("resultType", "result_type")
"""Keys of results. The Python SDK reads both spellings."""

_SHAPES = (
    {"jsonrpc", "id", "method"},
    {"jsonrpc", "id", "method", "params"},
    {"jsonrpc", "method"},
    {"jsonrpc", "method", "params"},
    {"jsonrpc", "id", "result"},
    {"jsonrpc", "id", "error"},
)
"""The keys of a message."""


@dataclass(frozen=True)
class ClientMessage:
    """A message that passes, with the `text` that is sent for it.

    `method` is empty for an answer, `tool` for all but calls. `number` is the id of a request, None for all
    else.
    """

    text: bytes
    method: str
    tool: str
    number: RequestId | None = None


class McpRefusal(Exception):
    """A client's message that does not pass."""

    def __init__(
        self, reason: RefusalReason, fault: str, *, number: RequestId | None = None, what: str = ""
    ) -> None:
        """`number` is the request's id; `what` its method, or its tool where that is refused."""
        super().__init__(fault)
        self.reason: RefusalReason = reason
        self.what = what
        self._number = number

    @property
    def answer(self) -> bytes | None:
        """The error as JSON-RPC has it, with the request's id; None if the message is not a request."""
        if self._number is None:
            return None
        code = _INVALID_PARAMS if self.reason == "tool" else _METHOD_NOT_FOUND
        return _error_text(self._number, code, str(self))

    @property
    def answer_in_stream(self) -> bytes | None:
        """The answer in a stream. Text that is not a message is answered, too, with a null id."""
        if self._number is None and self.reason == "message":
            return _error_text(None, _INVALID_REQUEST, str(self))
        return self.answer


def client_message(raw: bytes, allows: Allows) -> ClientMessage:
    """Give the client's message as the server gets it. Raise McpRefusal if it does not pass."""
    try:
        message = _read_message(raw, _CLIENT)
        text = _write_message(message)
    except ValueError as fault:
        raise McpRefusal("message", str(fault)) from None
    if "method" not in message:
        if "error" not in message and message["result"] != {}:
            raise McpRefusal("call", "answers to requests of the server do not pass", what="an answer")
        return ClientMessage(text, "", "")
    method, number = message["method"], message.get("id")
    passing = REQUESTS if number is not None else NOTIFICATIONS
    if method == CALL and number is not None:
        return ClientMessage(text, method, _listed_tool(message, allows), number)
    if method not in passing:
        raise McpRefusal("call", f"{method[:_MAX_ID]}: only tools pass", number=number, what=method)
    return ClientMessage(text, method, "", number)


def _listed_tool(message: dict[str, Any], allows: Allows) -> str:
    params = message.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    if not isinstance(name, str):
        raise McpRefusal("message", "the call names no tool")
    if not allows(name):
        fault = f"the tool {name[:_MAX_ID]}: no mcp rule lists it"
        raise McpRefusal("tool", fault, number=message["id"], what=name)
    return name


def server_message(
    raw: bytes, allows: Allows, awaited: MutableMapping[RequestId, None] | None = None
) -> bytes | None:
    """Give the server's message as the client gets it; None if it does not pass.

    Raise ValueError if it is not a message.

    `awaited` has the ids of requests that passed and are not answered yet: only answers to these pass, each
    once. None: every answer.
    """
    message = _read_message(raw, _SERVER)
    if "method" in message:
        method = message["method"]
        passes = method == "ping" if "id" in message else method.startswith("notifications/")
        return _write_message(message) if passes else None
    if awaited is not None and message["id"] is not None:
        if message["id"] not in awaited:
            raise ValueError("message: it answers no request that passed")
        del awaited[message["id"]]
    result = message.get("result")
    if isinstance(result, dict) and _asks_client(result):
        return _error_text(
            message["id"], _METHOD_NOT_FOUND, "input_required: no request to the client passes"
        )
    if isinstance(result, dict) and "tools" in result:
        tools = result["tools"] if isinstance(result["tools"], list) else []
        message["result"] = {**result, "tools": [each for each in tools if _is_listed(each, allows)]}
    return _write_message(message)


def refuse_server_request(raw: bytes) -> bytes | None:
    """The answer to a server's request that does not pass; None if the message is not a request.

    Raise ValueError for no message.
    """
    message = _read_message(raw, _SERVER)
    if "id" not in message or "method" not in message:
        return None
    return _error_text(message["id"], _METHOD_NOT_FOUND, f"{message['method']}: it does not pass")


def _asks_client(result: dict[str, Any]) -> bool:
    """Whether a result asks for sampling, elicitation or roots, so that the client would call once more."""
    types = [result.get(each, "complete") for each in _RESULT_TYPES]
    return not _INPUT_REQUESTS.isdisjoint(result) or any(each != "complete" for each in types)


def _is_listed(tool: object, allows: Allows) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str) and allows(tool["name"])


def _read_message(raw: bytes, fields: Fields) -> dict[str, Any]:
    """Read one message. Raise ValueError for text that another parser might read differently."""
    try:
        message = strictjson.parse_json(raw, "message", fields)
    except ArchiveRefused as fault:
        raise ValueError(str(fault)) from None
    if set(message) not in _SHAPES:
        raise ValueError(f"message: these are no keys of one: {', '.join(message)[:200]}")
    if message["jsonrpc"] != "2.0":
        raise ValueError("message: jsonrpc is not 2.0")
    if not isinstance(message.get("method", ""), str):
        raise ValueError("message: method is no text")
    if not isinstance(message.get("params", {}), dict):
        raise ValueError("message: params is no object")
    if "id" in message and not _is_id(message["id"]) and not ("error" in message and message["id"] is None):
        raise ValueError("message: id is neither a short text nor a number")
    return message


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_ID
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def _error_text(number: RequestId | None, code: int, fault: str) -> bytes:
    error = {"code": code, "message": f"sandwright: refused: {fault}"}
    return _write_message({"jsonrpc": "2.0", "id": number, "error": error})


def _write_message(message: dict[str, Any]) -> bytes:
    """A message's text: in one line, in ASCII. Raise ValueError for one that is nested too deep."""
    try:
        return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    except RecursionError:
        raise ValueError("message: nested too deep") from None
