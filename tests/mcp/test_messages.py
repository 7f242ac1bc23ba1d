"""Messages of MCP that pass under a list of tools, and the answers in place of the others.

Tests of mcp/messages.py.
Tests of mcp/methods.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from sandwright.mcp.messages import McpRefusal, client_message, server_message
from sandwright.mcp.methods import NOTIFICATIONS, REQUESTS
from support.mcpserver import catalogue

LISTED = frozenset(("search", "fetch"))


def allows(name: str) -> bool:
    return name in LISTED


def request(method: str, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, **more}


def call(name: Any, **more: Any) -> dict[str, Any]:
    return request("tools/call", params={"name": name, **more})


def refusal(raw: bytes) -> McpRefusal:
    with pytest.raises(McpRefusal) as found:
        client_message(raw, allows)
    return found.value


@pytest.mark.parametrize(
    "message",
    [
        *map(request, sorted(REQUESTS)),
        *({"jsonrpc": "2.0", "method": each} for each in sorted(NOTIFICATIONS)),
        call("search"),
        call("fetch", arguments={"name": "delete", "Name": ["x"], "a": {"A": 1, "a": 2}}, _meta={"x": 1}),
        {**call("search"), "id": "a-1"},
        {**call("search"), "id": 0},
        {"jsonrpc": "2.0", "id": 7, "result": {}},
        {"jsonrpc": "2.0", "id": 7, "error": {"code": -1, "message": "no"}},
    ],
)
def test_what_a_client_needs_passes_as_it_was_meant(message: dict[str, Any]) -> None:
    found = client_message(json.dumps(message, indent=3).encode(), allows)
    assert json.loads(found.text) == message
    assert b"\n" not in found.text
    assert found.method == message.get("method", "")


@pytest.mark.parametrize(
    "name", ["delete", "Search", "search ", "", "sear\u0441h", "search\u0000", "s" * 200]
)
def test_a_tool_that_is_not_listed_is_refused_with_its_id(name: str) -> None:
    found = refusal(json.dumps({**call(name), "id": "a"}).encode())
    assert (found.reason, found.what) == ("tool", name)
    assert found.answer is not None
    answer = json.loads(found.answer)
    assert (answer["id"], answer["error"]["code"]) == ("a", -32602)


@pytest.mark.parametrize(
    "method",
    [
        *(
            "resources/list",
            "resources/read",
            "resources/subscribe",
            "resources/templates/list",
            "prompts/list",
        ),
        *("prompts/get", "completion/complete", "logging/setLevel", "sampling/createMessage", "tasks/result"),
        *(
            "subscriptions/listen",
            "tools/Call",
            "tools/call ",
            "TOOLS/CALL",
            "",
            "admin",
            "notifications/cancelled",
        ),
    ],
)
def test_no_other_method_passes(method: str) -> None:
    found = refusal(json.dumps(request(method, params={"name": "search"})).encode())
    assert (found.reason, found.what) == ("call", method)
    assert found.answer is not None
    assert json.loads(found.answer)["error"]["code"] == -32601


@pytest.mark.parametrize("method", ["notifications/anything", "tools/list", "tools/call", "initialize"])
def test_no_other_notification_passes(method: str) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": {"name": "search"}}
    found = refusal(json.dumps(message).encode())
    assert (found.reason, found.answer) == ("call", None)


def test_no_answer_to_the_servers_own_requests_passes() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "result": {"role": "assistant", "content": {}}}
    assert refusal(json.dumps(message).encode()).reason == "call"


GOOD = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"}}'

TWO_READINGS = {
    "a batch": f"[{GOOD}]",
    "an empty batch": "[]",
    "two messages": GOOD + GOOD,
    "two lines": f"{GOOD}\n{GOOD}",
    "no JSON": "x",
    "nothing": "",
    "half": GOOD[:-1],
    "a comment": GOOD.replace("{", "{/**/", 1),
    "a comma too many": GOOD.replace("}}", "},}"),
    "two names": GOOD.replace('"name":"search"', '"name":"search","name":"delete"'),
    "two names, one escaped": GOOD.replace('"name":"search"', r'"name":"search","n\u0061me":"delete"'),
    "another case": GOOD.replace('"name":"search"', '"name":"search","NAME":"delete"'),
    "a Kelvin sign": GOOD.replace('"id":1', '"id":1,"\u212a":1'),
    "a long s": GOOD.replace('"params"', '"param\u017f":{"name":"delete"},"params"'),
    "two methods": GOOD.replace('"method"', '"method":"ping","method"'),
    "two cases of method": GOOD.replace('"method"', '"Method":"ping","method"'),
    "two params": GOOD.replace('"params"', '"params":{"name":"delete"},"params"'),
    "params in an array": GOOD.replace('{"name":"search"}', '["search"]'),
    "params of null": GOOD.replace('{"name":"search"}', "null"),
    "a name in an array": GOOD.replace('"search"', '["search"]'),
    "a name in an object": GOOD.replace('"search"', '{"name":"search"}'),
    "no name": GOOD.replace('"name"', '"nom"'),
    "no params": '{"jsonrpc":"2.0","id":1,"method":"tools/call"}',
    "a key too many": GOOD.replace('"id"', '"x":1,"id"'),
    "a request and an answer": GOOD.replace('"id"', '"result":{},"id"'),
    "an id of null": GOOD.replace('"id":1', '"id":null'),
    "an id of true": GOOD.replace('"id":1', '"id":true'),
    "an id with a fraction": GOOD.replace('"id":1', '"id":1.5'),
    "a huge id": GOOD.replace('"id":1', f'"id":{"9" * 5000}'),
    "an id beyond 64 bits": GOOD.replace('"id":1', f'"id":{1 << 64}'),
    "a long id": GOOD.replace('"id":1', f'"id":"{"x" * 300}"'),
    "a number as method": GOOD.replace('"tools/call"', "1"),
    "no version": GOOD.replace('"jsonrpc":"2.0",', ""),
    "another version": GOOD.replace('"2.0"', "2.0"),
    "NaN": GOOD.replace('"search"', '"search","arguments":NaN'),
    "an infinite number": GOOD.replace('"search"', '"search","arguments":1e999'),
    "half a character": GOOD.replace('"search"', r'"search","arguments":"\ud800"'),
    "a control character": GOOD.replace("search", "se\narch"),
    "a NUL": GOOD + "\0",
    "a byte order mark": "\ufeff" + GOOD,
    "depth": GOOD.replace('"search"', '"search","arguments":' + "[" * 100_000 + "]" * 100_000),
    "deep objects": GOOD.replace('"search"', '"search","arguments":' + '{"a":' * 3000 + "1" + "}" * 3000),
}  # fmt: skip


@pytest.mark.parametrize("name", TWO_READINGS)
def test_what_has_two_readings_is_refused(name: str) -> None:
    assert refusal(TWO_READINGS[name].encode()).reason == "message"


@pytest.mark.parametrize("raw", [GOOD.encode("utf-16"), GOOD.encode("utf-32-le"), b"\xff" + GOOD.encode()])
def test_another_encoding_is_refused(raw: bytes) -> None:
    assert refusal(raw).reason == "message"


def shown(message: dict[str, Any]) -> list[str]:
    found = server_message(json.dumps(message).encode(), allows)
    assert found is not None
    return [each["name"] for each in json.loads(found)["result"]["tools"]]


def test_a_list_has_the_listed_tools_whatever_it_answers() -> None:
    tools = catalogue(["search", "delete", "fetch", "Search"])
    answer = {"jsonrpc": "2.0", "id": "other", "result": {"tools": tools, "nextCursor": "n"}}
    assert shown(answer) == ["search", "fetch"]
    found = server_message(json.dumps(answer).encode(), allows)
    assert found is not None
    assert json.loads(found)["result"]["nextCursor"] == "n"
    assert json.loads(found)["result"]["tools"][0] == tools[0]


@pytest.mark.parametrize(
    "tools", [{"search": 1}, "search", 1, None, [["search"]], [{"name": ["search"]}], [{}]]
)
def test_a_list_that_is_none_is_empty(tools: object) -> None:
    assert shown({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"result":{"tools":[],"tools":[{"name":"delete"}]}}',
        '{"jsonrpc":"2.0","id":1,"result":{"tools":[],"Tools":[{"name":"delete"}]}}',
        '{"jsonrpc":"2.0","id":1,"result":{"TOOLS":[{"name":"delete"}]}}',
        '{"jsonrpc":"2.0","id":1,"result":{"tool\u017f":[{"name":"delete"}]}}',
        '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"search","Name":"delete"}]}}',
        '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"search","name":"delete"}]}}',
        '{"jsonrpc":"2.0","id":1,"Result":{"tools":[{"name":"delete"}]}}',
        '[{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"delete"}]}}]',
        '{"jsonrpc":"2.0","id":1,"result":{"inputrequests":{}}}',
        '{"jsonrpc":"2.0","id":1,"result":{"resulttype":"input_required"}}',
        '{"tools":[{"name":"delete"}]}',
        "x",
    ],
)
def test_an_answer_with_two_readings_is_no_message(text: str) -> None:
    with pytest.raises(ValueError, match="message"):
        server_message(text.encode(), allows)


@pytest.mark.parametrize(
    ("result", "passes"),
    [
        ({"content": []}, True),
        ({"resultType": "complete", "content": []}, True),
        (
            {"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}},
            False,
        ),
        ({"resultType": "input_required", "requestState": "x"}, False),
        ({"result_type": "input_required", "input_requests": {"a": {"method": "roots/list"}}}, False),
        ({"content": [], "inputRequests": {"a": {"method": "elicitation/create"}}}, False),
        ({"content": [], "resultType": None, "input_requests": {}}, False),
    ],
)
def test_a_result_that_asks_the_client_is_an_error(result: dict[str, Any], passes: bool) -> None:
    """Revision 2026-07-28 of MCP: the client follows `inputRequests`, and calls once more."""
    answer = {"jsonrpc": "2.0", "id": 1, "result": result}
    found = server_message(json.dumps(answer).encode(), allows)
    assert found is not None
    if passes:
        assert json.loads(found) == answer
    else:
        assert json.loads(found) == {
            "jsonrpc": "2.0",
            "id": 1,
            "error": {
                "code": -32601,
                "message": "sandwright: refused: input_required: no request to the client passes",
            },
        }


@pytest.mark.parametrize(
    ("message", "passes"),
    [
        (request("ping"), True),
        (request("sampling/createMessage", params={}), False),
        (request("elicitation/create", params={}), False),
        (request("roots/list"), False),
        ({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}}, True),
        ({"jsonrpc": "2.0", "method": "other"}, False),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "m"}}, True),
        ({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "m"}}, True),
    ],
)
def test_of_a_server_answers_and_notifications_pass(message: dict[str, Any], passes: bool) -> None:
    found = server_message(json.dumps(message).encode(), allows)
    assert (found is not None) is passes
    assert found is None or json.loads(found) == message
