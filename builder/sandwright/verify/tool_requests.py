"""Requests to an MCP server that prove the rules about its tools: some must pass, more must not."""

from __future__ import annotations

from collections.abc import Iterator

HOST = "tools.verify.sandwright.invalid"
"""No host has this name (RFC 6761, 6.4)."""

RULES = f"{{host: {HOST}, mcp: {{tools: [search, 'get_*']}}}}, {{host: {HOST}, paths: ['/**']}}"

_CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}'
_OTHER = _CALL.replace("search", "delete")
_LIST = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'

_ALLOWED = (_CALL, _CALL.replace("search", "get_issue"), _LIST, _LIST.replace('"id":1,', '"id":"x",'))

_REFUSED = (
    _OTHER,
    _CALL.replace('"search"', '"Search"'),
    _CALL.replace('"search"', '"get_\\u0000"'),
    _CALL.replace('"search"', '"s\\u00e9arch"'),
    _CALL.replace('"search"', '["search"]'),
    _CALL.replace('{"name":"search"}', '[{"name":"search"}]'),
    _CALL.replace('"name":"search"', '"name":"search","name":"delete"'),
    _CALL.replace('"name":"search"', '"name":"delete","name":"search"'),
    _CALL.replace('"name":"search"', '"name":"search","Name":"delete"'),
    _CALL.replace('"name":"search"', '"name":"search","na\\u006de":"delete"'),
    _CALL.replace('"params":', '"params":{"name":"delete"},"params":'),
    _CALL.replace('"params":', '"PARAMS":{"name":"delete"},"params":'),
    _CALL.replace('"method":"tools/call"', '"method":"tools/list","method":"tools/call"'),
    _CALL.replace('"method":"tools/call"', '"method":"tools/list","Method":"tools/call"'),
    _CALL.replace("tools/call", "Tools/Call"),
    _CALL.replace('"id":1,', ""),
    _CALL.replace('"id":1', '"id":{}'),
    _CALL.replace('"id":1', '"id":null'),
    _CALL.replace('"2.0"', '"1.0"'),
    _CALL.replace("}}", '},"x":1}'),
    f"[{_CALL}]",
    f"[{_LIST},{_OTHER}]",
    _CALL + _OTHER,
    _CALL + "\n" + _OTHER,
    "\ufeff" + _CALL,
    _CALL.encode("utf-16").decode("latin-1"),
    _CALL[:-1],
    "",
    "x=1",
    *(_LIST.replace("tools/list", each) for each in (
        "resources/read", "resources/list", "prompts/get", "completion/complete", "logging/setLevel",
        "sampling/createMessage", "tasks/list", "subscriptions/listen", "admin/anything", "",
    )),
    '{"jsonrpc":"2.0","method":"notifications/anything"}',
    '{"jsonrpc":"2.0","id":1,"result":{"role":"assistant"}}',
)  # fmt: skip
"""Messages that call no listed tool, or that are ambiguous."""

_FORMS = (
    "Content-Type: text/plain",
    "Content-Type: application/json; charset=utf-16",
    "Content-Type: application/json\r\nContent-Type: text/plain",
    "Content-Encoding: gzip",
    "Content-Encoding: identity, br",
    "Mcp-Method: tools/list",
    "Mcp-Name: delete",
    "Mcp-Name: =?base64?ZGVsZXRl?=",
    "Mcp_Name: search",
    "X-HTTP-Method-Override: DELETE",
)
"""Headers that might make a server take an allowed message for another one."""

_TARGETS = (
    "/mcp/",
    "/MCP",
    "/mcp/messages",
    "/Mcp/",
    "/mcp?x=1",
    "/mcp?method=tools/call",
    "/mcp%2fx",
    "//mcp",
)
"""Ways around the path; a rule for every other path is there, too."""


def allowed_tool_requests() -> Iterator[bytes]:
    """Requests that rules allow; also at another path, as a control."""
    yield from (raw_message(each) for each in _ALLOWED)
    yield raw_message("", target="/elsewhere", method="GET")
    yield raw_message("", method="GET")


def refused_tool_requests() -> Iterator[bytes]:
    """Requests that no rule allows, or that are ambiguous."""
    yield from (raw_message(each) for each in _REFUSED)
    yield from (raw_message(_CALL, each, typed="Content-Type" not in each) for each in _FORMS)
    yield from (raw_message(_CALL, target=each) for each in _TARGETS)
    yield from (raw_message(_CALL, method=each) for each in ("PUT", "PATCH", "GET", "DELETE", "HEAD"))
    yield raw_message(_CALL.replace('"id":1', f'"id":"{"x" * 300}"'))
    yield raw_message(_CALL.replace('"search"', '"search","arguments":' + "[" * 100_000))


def raw_message(
    message: str, header: str = "", *, target: str = "/mcp", method: str = "POST", typed: bool = True
) -> bytes:
    """A request with a message as its body."""
    body = message.encode("utf-8")
    lines = (
        f"{method} {target} HTTP/1.1",
        f"Host: {HOST}",
        "Content-Type: application/json" if typed and body else "",
        f"Content-Length: {len(body)}" if body else "",
        header,
        "Connection: close",
    )
    return ("\r\n".join(filter(None, lines)) + "\r\n\r\n").encode() + body
