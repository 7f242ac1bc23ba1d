"""The protocols of models, in four formats: Messages, Responses, Chat Completions and generateContent.

Each format reads a request as a `Turn`, and writes an `Answer` as one document or as the events of a stream.
The shapes are those of Anthropic (platform.claude.com/docs/en/api/messages-streaming), OpenAI
(platform.openai.com/docs/api-reference) and Google (ai.google.dev/api/generate-content), without the parts
that no agent needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]
Event = tuple[str, Document]
"""The name of an event of a stream, empty if the format has none, and its data."""


@dataclass(frozen=True)
class Tool:
    """A tool of an agent; without a schema it takes plain text."""

    name: str
    schema: Mapping[str, Any] | None
    namespace: str = ""


@dataclass(frozen=True)
class Turn:
    """A request: the offered tools, and the results of calls until now, oldest first.

    `wanted` is the schema of the JSON that it wants for an answer, if any.
    """

    tools: Sequence[Tool]
    results: Sequence[str]
    wanted: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Answer:
    """The model's answer: text, or a call of `tool` with arguments, or with text if it has no schema."""

    text: str = ""
    tool: str = ""
    namespace: str = ""
    arguments: Mapping[str, Any] | str = ""
    number: int = 0
    """The number of the call in its conversation."""

    @property
    def identity(self) -> str:
        return f"call_{self.number}"

    @property
    def json(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Format:
    """One format. `closing` is the end of its streams."""

    read: Callable[[Document], Turn]
    whole: Callable[[Answer, str], Document]
    events: Callable[[Answer, str], Iterator[Event]]
    closing: str = ""


def plain(content: object) -> str:
    """The text of a content: a string, or parts with a `text`."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(plain(each.get("text", "")) for each in content if isinstance(each, dict))
    return json.dumps(content)


def _messages_turn(body: Document) -> Turn:
    blocks = [
        block for said in body["messages"] if isinstance(said["content"], list) for block in said["content"]
    ]
    results = [plain(block.get("content", "")) for block in blocks if block["type"] == "tool_result"]
    tools = [
        Tool(each["name"], each["input_schema"]) for each in body.get("tools", ()) if "input_schema" in each
    ]
    return Turn(tools, results)


def _messages_block(answer: Answer) -> Document:
    if answer.tool:
        return {"type": "tool_use", "id": answer.identity, "name": answer.tool, "input": answer.arguments}
    return {"type": "text", "text": answer.text}


def _messages_whole(answer: Answer, model: str) -> Document:
    return {
        "id": "msg_scripted",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [_messages_block(answer)],
        "stop_reason": "tool_use" if answer.tool else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _messages_events(answer: Answer, model: str) -> Iterator[Event]:
    whole, block = _messages_whole(answer, model), _messages_block(answer)
    empty = {**block, "input": {}} if answer.tool else {**block, "text": ""}
    delta = (
        {"type": "input_json_delta", "partial_json": answer.json}
        if answer.tool
        else {"type": "text_delta", "text": answer.text}
    )
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    for name, data in (
        ("message_start", {"message": {**whole, "content": [], "stop_reason": None}}),
        ("content_block_start", {"index": 0, "content_block": empty}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": stop, "usage": whole["usage"]}),
        ("message_stop", {}),
    ):
        yield name, {"type": name, **data}


def _responses_turn(body: Document) -> Turn:
    said = body["input"] if isinstance(body["input"], list) else []
    ends = ("function_call_output", "custom_tool_call_output")
    results = [plain(each["output"]) for each in said if each.get("type") in ends]
    more = [tool for each in said if each.get("type") == "additional_tools" for tool in each["tools"]]
    return Turn(list(_responses_tools([*body.get("tools", ()), *more])), results)


def _responses_tools(offered: Sequence[Document], namespace: str = "") -> Iterator[Tool]:
    for each in offered:
        if each["type"] == "namespace":
            yield from _responses_tools(each["tools"], each["name"])
        elif each["type"] in ("function", "custom"):
            schema = each["parameters"] if each["type"] == "function" else None
            yield Tool(each["name"], schema, namespace)


def _responses_item(answer: Answer) -> Document:
    if not answer.tool:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        return {
            "type": "message",
            "id": "msg_scripted",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    called = {
        "id": f"fc_{answer.number}",
        "call_id": answer.identity,
        "name": answer.tool,
        "status": "completed",
    }
    if answer.namespace:
        called["namespace"] = answer.namespace
    if isinstance(answer.arguments, str):
        return {"type": "custom_tool_call", **called, "input": answer.arguments}
    return {"type": "function_call", **called, "arguments": answer.json}


def _responses_whole(answer: Answer, model: str) -> Document:
    return {
        "id": "resp_scripted",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": model,
        "output": [_responses_item(answer)],
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }


def _responses_texts(item: Document) -> list[Event]:
    """The events of a text, between the start and the end of its message."""
    where: Document = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    part = item["content"][0]
    return [
        ("response.content_part.added", {**where, "part": {**part, "text": ""}}),
        ("response.output_text.delta", {**where, "delta": part["text"]}),
        ("response.output_text.done", {**where, "text": part["text"]}),
        ("response.content_part.done", {**where, "part": part}),
    ]


def _responses_events(answer: Answer, model: str) -> Iterator[Event]:
    whole, item = _responses_whole(answer, model), _responses_item(answer)
    begun = {**item, "status": "in_progress"}
    texts: list[Event] = []
    if not answer.tool:
        begun["content"] = []
        texts = _responses_texts(item)
    started = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[Event] = [
        ("response.created", {"response": started}),
        ("response.output_item.added", {"output_index": 0, "item": begun}),
        *texts,
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": whole}),
    ]
    for number, (name, data) in enumerate(events):
        yield name, {"type": name, "sequence_number": number, **data}


def _chat_turn(body: Document) -> Turn:
    results = [plain(each["content"]) for each in body["messages"] if each["role"] == "tool"]
    functions = [each["function"] for each in body.get("tools") or () if each["type"] == "function"]
    return Turn([Tool(each["name"], each.get("parameters", {})) for each in functions], results)


def _chat_message(answer: Answer) -> Document:
    if not answer.tool:
        return {"role": "assistant", "content": answer.text}
    function = {"name": answer.tool, "arguments": answer.json}
    called = {"index": 0, "id": answer.identity, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [called]}


def _chat_whole(answer: Answer, model: str) -> Document:
    reason = "tool_calls" if answer.tool else "stop"
    choice = {"index": 0, "message": _chat_message(answer), "finish_reason": reason}
    return {**_chat_head("chat.completion", model), "choices": [choice], "usage": _CHAT_USAGE}


def _chat_head(kind: str, model: str) -> Document:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": model}


_CHAT_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def _chat_events(answer: Answer, model: str) -> Iterator[Event]:
    head = _chat_head("chat.completion.chunk", model)
    reason = "tool_calls" if answer.tool else "stop"
    said = {"index": 0, "delta": _chat_message(answer), "finish_reason": None}
    yield "", {**head, "choices": [said]}
    yield "", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": _CHAT_USAGE}


def _google_turn(body: Document) -> Turn:
    parts = [part for said in body["contents"] for part in said["parts"]]
    answered = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    results = [plain(each.get("output", each.get("error", each))) for each in answered]
    offered = [each for tool in body.get("tools") or () for each in tool.get("functionDeclarations", ())]
    tools = [
        Tool(each["name"], each.get("parametersJsonSchema") or each.get("parameters") or {})
        for each in offered
    ]
    return Turn(tools, results, body.get("generationConfig", {}).get("responseJsonSchema"))


def _google_whole(answer: Answer, model: str) -> Document:
    called = {"functionCall": {"id": answer.identity, "name": answer.tool, "args": answer.arguments}}
    part = called if answer.tool else {"text": answer.text}
    return {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": model,
        "responseId": "scripted",
    }


def _google_events(answer: Answer, model: str) -> Iterator[Event]:
    yield "", _google_whole(answer, model)


MESSAGES = Format(_messages_turn, _messages_whole, _messages_events)
RESPONSES = Format(_responses_turn, _responses_whole, _responses_events)
CHAT = Format(_chat_turn, _chat_whole, _chat_events, "data: [DONE]\n\n")
GOOGLE = Format(_google_turn, _google_whole, _google_events)
