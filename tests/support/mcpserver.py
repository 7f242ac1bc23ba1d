"""MCP servers that accept every client, and offer more than is permitted: for the canary, and over stdio."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Protocol

TOOLS = ("search", "fetch", "get_issue", "delete_repo", "admin")
"""The offered tools of the server."""


@dataclass
class McpServer:
    """Over Streamable HTTP. `called` are the called tools. An answer is JSON, or events of the form `style`.

    `stream` is the answer to a GET, as bytes. `said`, if set, is the answer to every POST: its type and its
    bytes.
    """

    called: list[str] = field(default_factory=list)
    style: str = "json"
    stream: Sequence[bytes] = ()
    said: tuple[str, bytes] | None = None

    def answer(self, method: str, body: bytes) -> tuple[str, str, list[bytes]]:
        """The status, type and parts of an answer."""
        if method == "GET":
            return "200 OK", "text/event-stream", list(self.stream)
        if method == "DELETE":
            return "200 OK", "", []
        if self.said is not None:
            return "200 OK", self.said[0], [self.said[1]]
        asked = json.loads(body)
        answers = [
            found for each in (asked if isinstance(asked, list) else [asked]) if (found := self._one(each))
        ]
        if not answers:
            return "202 Accepted", "", []
        text = json.dumps(answers if isinstance(asked, list) else answers[0]).encode()
        if self.style == "json":
            return "200 OK", "application/json", [text]
        return "200 OK", "text/event-stream", [b"event: message\nid: 7\n", b"data: ", text, b"\n\n"]

    def _one(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        if "id" not in asked or "method" not in asked:
            return None
        params = asked.get("params") or {}
        result: dict[str, Any] = {}
        match asked["method"]:
            case "initialize":
                result = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}, "resources": {}},
                    "serverInfo": {"name": "canary", "version": "1"},
                }
            case "tools/list":
                result = {"tools": catalogue()}
            case "tools/call":
                self.called.append(str(params.get("name")))
                result = {"content": [{"type": "text", "text": json.dumps(params)}], "isError": False}
            case _:
                result = {"resources": [{"uri": "file:///etc/shadow", "name": "shadow"}]}
        return {"jsonrpc": "2.0", "id": asked["id"], "result": result}


def catalogue(names: Sequence[str] = TOOLS) -> list[dict[str, Any]]:
    """Tools in the form of a list."""
    return [
        {"name": each, "description": f"does {each}", "inputSchema": {"type": "object"}} for each in names
    ]


_BY_SHELL = """\
while read -r line; do
    echo "$line" >>file
    echo '{"jsonrpc": "2.0", "id": 2, "result": {}}'
done
exit 7
"""


class McpProject(Protocol):
    """A project in which `run` starts a command with `sandwright run`."""

    @property
    def root(self) -> Path:
        """Its directory."""

    def run(self, *words: str, stdin: bytes = b"") -> CompletedProcess[bytes]:
        """Run a command."""


def serve_by_shell(project: McpProject) -> tuple[list[tuple[int, str]], list[str], int]:
    """Call `delete` and `search` of a server in shell, in a project's sandbox.

    Return the client's answers (ids, and whether each is an error), the tools that were called at the server,
    and the exit status.
    """
    calls = [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name}}
        for number, name in enumerate(("delete", "search"), start=1)
    ]
    sent = "".join(json.dumps(each) + "\n" for each in calls).encode()
    ended = project.run("sh", "-c", _BY_SHELL, stdin=sent)
    answers = map(json.loads, ended.stdout.splitlines())
    said = [(each["id"], "error" if "error" in each else "result") for each in answers]
    lines = (project.root / "file").read_text().splitlines()
    return said, [json.loads(each)["params"]["name"] for each in lines], ended.returncode
