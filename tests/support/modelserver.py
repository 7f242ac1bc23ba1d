"""A model on loopback that follows a script, so that real coding agents make real tool calls in tests.

The next step follows from the request alone: a conversation with the results of two calls gets the third
step, and one without tools, such as for a title, gets a word. The server records its requests.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.localhttp import QuietHandler, listening
from support.modelwire import CHAT, GOOGLE, MESSAGES, RESPONSES, Answer, Document, Format, Tool, Turn


@dataclass(frozen=True)
class Write:
    """Write a text to a file with the agent's own tool for that, or with its shell if it has none."""

    path: str
    text: str


@dataclass(frozen=True)
class Run:
    """Run a line of sh with the agent's tool for that."""

    line: str


Step = Write | Run

SHELLS = ("Bash", "bash", "shell", "shell_command", "exec_command", "run_shell_command", "exec")
WRITERS = ("Write", "write", "write_file", "create", "apply_patch")
PATHS = ("file_path", "filePath", "absolute_path", "path")
TEXTS = ("content", "file_text", "contents")
PATCHES = ("patchText",)
LINES = ("command", "cmd")
KEYS = ("x-api-key", "authorization", "x-goog-api-key")
"""Names of tools and their arguments in the agents."""


@dataclass
class Model:
    """A running server: its port, its script, and its requests."""

    script: Sequence[Step]
    port: int = 0
    requests: list[tuple[str, Document]] = field(default_factory=list)
    """Paths with bodies; an empty body for a request without one."""
    keys: list[str] = field(default_factory=list)
    """The headers with keys of requests that have a body."""
    words: str = "The script has ended."
    """The model's text at the end, and for requests without tools."""

    @property
    def turns(self) -> list[Turn]:
        """Requests that offer tools, decoded from their formats."""
        found = [(format_of(path), body) for path, body in self.requests if body]
        return [turn for form, body in found if form and (turn := form.read(body)).tools]

    @property
    def results(self) -> list[str]:
        """The results that the agent sent back, one per step, in its longest conversation."""
        return max(([*turn.results] for turn in self.turns), key=len, default=[])

    def answer(self, turn: Turn) -> Answer:
        number = len(turn.results)
        if turn.wanted is not None:
            return Answer(json.dumps(filled(turn.wanted)))
        if not turn.tools or number >= len(self.script):
            return Answer(self.words)
        return call(self.script[number], turn.tools, number)


def format_of(path: str) -> Format | None:
    """The format of a request to a path; None if no model has this path."""
    endings = {"/messages": MESSAGES, "/responses": RESPONSES, "/chat/completions": CHAT}
    plain = path.partition("?")[0]
    if plain.endswith((":generateContent", ":streamGenerateContent")):
        return GOOGLE
    return next((form for ending, form in endings.items() if plain.endswith(ending)), None)


def call(step: Step, tools: Sequence[Tool], number: int) -> Answer:
    """The call that makes a step. Raise LookupError, with the names of the tools, if none does."""
    known = {tool.name: tool for tool in tools}
    for name in (*(WRITERS if isinstance(step, Write) else ()), *SHELLS):
        if name in known:
            tool = known[name]
            words = _text(tool.name, step) if tool.schema is None else _arguments(tool.schema, step)
            return Answer("", name, tool.namespace, words, number)
    raise LookupError(f"none of these does {step}: {sorted(known)}")


def _text(name: str, step: Step) -> str:
    """The input of a tool of Codex: a patch, or a program in JavaScript that calls its other tools."""
    if isinstance(step, Run):
        return f"text((await tools.exec_command({json.dumps({'cmd': step.line})})).output)"
    patch = _patch(step)
    return patch if name == "apply_patch" else f"text(await tools.apply_patch({json.dumps(patch)}))"


def _patch(step: Write) -> str:
    added = "".join(f"+{line}\n" for line in step.text.splitlines())
    return f"*** Begin Patch\n*** Add File: {step.path}\n{added}*** End Patch"


def _arguments(schema: Mapping[str, Any], step: Step) -> Mapping[str, Any]:
    """All required arguments of a tool. Unknown ones are filled by their type."""
    line = step.line if isinstance(step, Run) else f"cat > '{step.path}' <<'END'\n{step.text}END"
    properties, values = schema.get("properties", {}), dict[str, Any]()
    for name in properties:
        if name in LINES:
            values[name] = ["sh", "-c", line] if _type(properties[name]) == "array" else line
        elif isinstance(step, Write) and name in PATHS:
            values[name] = step.path
        elif isinstance(step, Write) and name in TEXTS:
            values[name] = step.text
        elif isinstance(step, Write) and name in PATCHES:
            values[name] = _patch(step)
        elif name in schema.get("required", ()):
            values[name] = filled(properties[name])
    return values


def filled(schema: Mapping[str, Any]) -> object:
    """A value that is valid for a JSON Schema, with only the required parts."""
    if "enum" in schema:
        return schema["enum"][0]
    properties = schema.get("properties", {})
    simple = {"boolean": False, "integer": 60, "number": 60, "array": [], "string": "scripted"}
    needed = {name: filled(properties[name]) for name in schema.get("required", ())}
    return simple.get(_type(schema), needed)


def _type(schema: Mapping[str, Any]) -> str:
    return str(schema.get("type", "string")).lower()


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def do_GET(self) -> None:
        self.model.requests.append((self.path, {}))
        self._send(json.dumps({"object": "list", "data": [], "models": []}), "application/json")

    def do_HEAD(self) -> None:
        self._send("", "application/json")

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            content = gzip.decompress(content)
        try:
            body = json.loads(content)
        except ValueError:
            body = {}
        self.model.requests.append((self.path, body))
        self.model.keys += [value for name in KEYS for value in self.headers.get_all(name, ())]
        form = format_of(self.path)
        if form is None:
            counted = {"input_tokens": 1, "totalTokens": 1}
            self._send(json.dumps(counted if "oken" in self.path else {}), "application/json")
            return
        self._answer(form, body)

    def _answer(self, form: Format, body: Document) -> None:
        answer, model = self.model.answer(form.read(body)), str(body.get("model", "scripted"))
        if not body.get("stream") and ":stream" not in self.path:
            self._send(json.dumps(form.whole(answer, model)), "application/json")
            return
        events = (
            f"{f'event: {name}{chr(10)}' if name else ''}data: {json.dumps(data)}\n\n"
            for name, data in form.events(answer, model)
        )
        self._send("".join(events) + form.closing, "text/event-stream")

    def _send(self, text: str, kind: str) -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextlib.contextmanager
def scripted(
    *script: Step, address: tuple[str, int] = ("127.0.0.1", 0), tls: ssl.SSLContext | None = None
) -> Iterator[Model]:
    """A model that makes its agent do these steps, one call after the other."""
    model = Model(script)
    with listening(type("Handler", (_Handler,), {"model": model}), address, tls) as port:
        model.port = port
        yield model
