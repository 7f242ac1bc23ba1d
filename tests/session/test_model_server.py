"""The scripted model of tests, with requests as agents send them."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Any

import pytest

from support.modelserver import Model, Run, Write, scripted

SCHEMA = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "why": {"type": "string"}, "more": {"type": "string"}},
    "required": ["command", "why"],
}
CALL = {"command": "true", "why": "scripted"}
CUSTOM = {"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "exec"}]}
MESSAGES = {"tools": [{"name": "Bash", "input_schema": SCHEMA}], "messages": []}
RESPONSES = {"tools": [{"type": "function", "name": "shell", "parameters": SCHEMA}], "input": []}
CODEX = {"input": [{"type": "additional_tools", "tools": [CUSTOM]}]}
CHAT = {"tools": [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}], "messages": []}
DECLARED = {"name": "run_shell_command", "parametersJsonSchema": SCHEMA}
GOOGLE = {"tools": [{"functionDeclarations": [DECLARED]}], "contents": []}


def _ask(model: Model, path: str, body: Mapping[str, Any]) -> str:
    address = f"http://127.0.0.1:{model.port}{path}"
    request = urllib.request.Request(address, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


@pytest.mark.parametrize(
    ("path", "body", "call"),
    [
        (
            "/v1/messages?beta=true",
            MESSAGES,
            {"type": "tool_use", "id": "call_0", "name": "Bash", "input": CALL},
        ),
        (
            "/v1/responses",
            RESPONSES,
            {
                "type": "function_call",
                "id": "fc_0",
                "call_id": "call_0",
                "status": "completed",
                "name": "shell",
                "arguments": json.dumps(CALL),
            },
        ),
        (
            "/v1/responses",
            CODEX,
            {
                "type": "custom_tool_call",
                "id": "fc_0",
                "call_id": "call_0",
                "status": "completed",
                "name": "exec",
                "namespace": "n",
                "input": 'text((await tools.exec_command({"cmd": "true"})).output)',
            },
        ),
        (
            "/v1/chat/completions",
            CHAT,
            {
                "index": 0,
                "id": "call_0",
                "type": "function",
                "function": {"name": "bash", "arguments": json.dumps(CALL)},
            },
        ),
        (
            "/v1beta/models/m:generateContent",
            GOOGLE,
            {"functionCall": {"id": "call_0", "name": "run_shell_command", "args": CALL}},
        ),
    ],
    ids=["messages", "responses", "codex", "chat", "google"],
)
def test_a_call(path: str, body: dict[str, Any], call: Mapping[str, Any]) -> None:
    """The answer is one document, or a stream."""
    with scripted(Run("true")) as model:
        whole = json.loads(_ask(model, path, body))
        choice = whole.get("choices", [{}])[0].get("message", {}).get("tool_calls", [])
        candidate = whole.get("candidates", [{}])[0].get("content", {}).get("parts", [])
        assert [*whole.get("content", ()), *whole.get("output", ()), *choice, *candidate] == [call]
        streamed = _ask(model, path.replace(":gen", ":streamGen"), {**body, "stream": True})
    data = [line.removeprefix("data: ") for line in streamed.splitlines() if line.startswith("data: {")]
    assert any(name in streamed for name in ('"shell"', '"Bash"', '"bash"', '"exec"', '"run_shell_command"'))
    assert all(json.loads(each) for each in data)


def test_the_end_of_a_script() -> None:
    """Results of calls count as steps; the agent's results stay available for tests."""
    result = {"type": "tool_result", "tool_use_id": "call_0", "content": [{"type": "text", "text": "seen"}]}
    said = [{"role": "user", "content": [result]}]
    with scripted(Write("a", "b")) as model:
        ended = json.loads(_ask(model, "/v1/messages", {**MESSAGES, "messages": said}))
        assert (ended["content"], ended["stop_reason"]) == (
            [{"type": "text", "text": model.words}],
            "end_turn",
        )
        assert model.results == ["seen"]


def test_json_is_answered_by_its_schema() -> None:
    wanted = {"type": "OBJECT", "properties": {"score": {"type": "INTEGER"}}, "required": ["score"]}
    body = {"contents": [], "generationConfig": {"responseJsonSchema": wanted}}
    with scripted() as model:
        answer = json.loads(_ask(model, "/v1beta/models/m:generateContent", body))
    assert json.loads(answer["candidates"][0]["content"]["parts"][0]["text"]) == {"score": 60}
