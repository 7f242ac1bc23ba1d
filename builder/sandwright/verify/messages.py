"""Proves the rules about tools of a server over standard input and output (`mcp.tools`).

The server is the probe program in the sandbox, behind the filter of `sandwright run`. Each message contains
an attempt in one of its values, and the program makes it when the message arrives: it prints a notification
that names the message, and the answers of a hostile server.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandwright import foreground, process
from sandwright.documents import strictjson
from sandwright.errors import ArchiveRefused, CommandFailed
from sandwright.mcp.messages import ClientMessage, McpRefusal
from sandwright.methods import registry
from sandwright.policy.mcp_rules import lists_tool
from sandwright.runtime.probe.protocol import attempt, request_line
from sandwright.session.mcp_streams import open_streams
from sandwright.verify.outcome import ProbeOutcome
from sandwright.verify.probe import Family
from sandwright.verify.sandbox import LIMIT, RenderedSandbox
from sandwright.verify.verdict import Verdict

ALLOWED, REFUSED, ANSWERS = (f"network/stdio-{name}" for name in ("allowed", "refused", "answers"))

_UNLISTED = "tool-of-verify"
_CODE = (
    "import sys; from sandwright.verify.messages import run_filtered; sys.exit(run_filtered(sys.argv[1:]))"
)
_OTHERS = ("resources/read", "resources/list", "prompts/get", "completion/complete", "sampling/createMessage")
_REQUEST = '{"jsonrpc":"2.0","id":NUMBER,"method":"METHOD","params":{"_meta":{"text":"ATTEMPT"}}}'
_CALL = _REQUEST.replace("METHOD", "tools/call").replace('"_meta"', '"name":"TOOL","arguments"')
_FIRST_REFUSED = 10
_LAST = 99


@dataclass(frozen=True)
class _Sent:
    """A line of the client, with the number that its arrival names."""

    number: int
    text: str


@dataclass(frozen=True)
class _Talk:
    """One conversation: the lines by kind, and the messages that the client received."""

    allowed: Sequence[_Sent]
    refused: Sequence[_Sent]
    received: Sequence[Mapping[str, Any]]
    stderr: str

    def arrived(self, sent: _Sent) -> bool:
        """Whether the server got a line."""
        return any(each.get("params") == {"arrived": sent.number} for each in self.received)

    def answers(self, number: int) -> list[Mapping[str, Any]]:
        """The answers with an id."""
        return [each for each in self.received if each.get("id") == number and "method" not in each]


def message_outcomes(tools: Collection[str] | None, sandbox: RenderedSandbox) -> Iterator[ProbeOutcome]:
    """The verdicts on a policy's `mcp.tools`; none without, or if `run` does not filter for the method."""
    if tools is not None and registry.declaration(sandbox.method).of("mcp.tools").level == "exact":
        yield from _message_verdicts(sandbox.method, tools, _talk(tools, sandbox))


def run_filtered(words: Sequence[str]) -> int:
    """Run a launcher with a client of MCP at standard input and output, and give its exit status.

    `words` are the method, the tools and the inherited descriptors as JSON, and the command line.
    """
    (method, tools, passed), command = strictjson.loads_record(words[0]), words[1:]
    backend = registry.backend(method)
    return foreground.run(
        command,
        os.environ,
        send_signal=backend.send_signal,
        relay=False,
        passed=passed,
        streams=open_streams(tools, _Unobserved()),
    )


class _Unobserved:
    """The decisions of the filter, which the client's side shows."""

    def passed(self, message: ClientMessage) -> None:
        """Take note of nothing."""

    def refused(self, refusal: McpRefusal) -> None:
        """Take note of nothing."""

    def dropped(self, fault: str) -> None:
        """Take note of nothing."""


def _talk(tools: Collection[str], sandbox: RenderedSandbox) -> _Talk:
    allowed, refused = list(_passing_lines(tools)), list(_refused_lines(tools))
    last = _sent(_LAST, _REQUEST.replace("METHOD", "ping"), *_hostile(refused), _server_answer(_LAST))
    lines = "".join(f"{each.text}\n" for each in (*allowed, *refused, last))
    passed = sandbox.inherited()
    words = (sys.executable, "-P", "-s", "-c", _CODE, json.dumps([sandbox.method, sorted(tools), passed]))
    try:
        ended = process.run(
            *words,
            *sandbox.argv(()),
            stdin=lines.encode(),
            check=False,
            timeout=LIMIT,
            env=sandbox.environment,
            pass_fds=passed,
        )
    except CommandFailed as failed:
        return _Talk((*allowed, last), refused, (), failed.stderr)
    return _Talk((*allowed, last), refused, list(_received_messages(ended.stdout)), ended.stderr.strip())


def _received_messages(output: bytes) -> Iterator[Mapping[str, Any]]:
    for line in output.splitlines():
        try:
            yield strictjson.parse_json(line, "message", {})
        except ArchiveRefused:
            yield {"line": line.decode(errors="replace")}


def _passing_lines(tools: Collection[str]) -> Iterator[_Sent]:
    """Messages that pass. The first asks for the list of tools, of which one is not listed."""
    listed = [each.replace("*", "x") for each in tools]
    offered = [{"name": each} for each in (*listed, _UNLISTED)]
    yield _sent(1, _REQUEST.replace("METHOD", "tools/list"), _server_answer(1, tools=offered))
    for number, each in enumerate(listed[:2], start=2):
        yield _sent(number, _CALL.replace("TOOL", each), _server_answer(number, content=[]))


def _refused_lines(tools: Collection[str]) -> Iterator[_Sent]:
    """Messages that must not arrive. Where every tool is listed, all calls may."""
    texts = [_REQUEST.replace("METHOD", each) for each in _OTHERS]
    if not lists_tool(tools, _UNLISTED):
        call = _CALL.replace("TOOL", _UNLISTED)
        listed = next((each.replace("*", "x") for each in tools), _UNLISTED)
        twice = call.replace('"name"', f'"name":"{listed}","name"')
        texts += [call, twice, call.replace('"id":NUMBER,', ""), f"[{call}]"]
    for number, text in enumerate(texts, start=_FIRST_REFUSED):
        yield _sent(number, text)


def _hostile(refused: Sequence[_Sent]) -> Iterator[str]:
    """Lines of a server that must not reach its client: answers to refused requests, and own requests."""
    yield from (_server_answer(each.number) for each in refused)
    yield '{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}'
    yield "text"


def _sent(number: int, text: str, *lines: str) -> _Sent:
    """A line of the client. When it arrives, the server prints a notification and these lines."""
    arrived = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"arrived": number}}
    printed = "".join(f"{each}\n" for each in (json.dumps(arrived), *lines))
    made = request_line(attempt("print", printed), number, word="")
    return _Sent(number, text.replace("NUMBER", str(number)).replace("ATTEMPT", f"{made} "))


def _server_answer(number: int, **result: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": {**result, "by": "server"}})


def _message_verdicts(method: str, tools: Collection[str], talk: _Talk) -> Iterator[ProbeOutcome]:
    arrived = [each.number for each in talk.allowed if talk.arrived(each)]
    answered = [each.number for each in talk.allowed if _is_of_server(talk.answers(each.number))]
    expected = [each.number for each in talk.allowed]
    works = arrived == answered == expected
    passed = [each.text for each in talk.refused if talk.arrived(each)]
    leaked = [str(each) for each in talk.received if _is_hostile(each, tools, talk)]
    evidence = f"control: of the messages {expected} {arrived} arrived, and {answered} were answered"
    evidence = "\n".join(filter(None, (*map(str, talk.received), evidence, talk.stderr)))
    for name, about, faults in (
        (ALLOWED, "messages that the policy allows reach the server of MCP, and its answers the client", ()),
        (
            REFUSED,
            f"{len(talk.refused)} messages that call no listed tool do not reach the server of MCP",
            passed,
        ),
        (
            ANSWERS,
            "unlisted tools, requests of the server and answers to refused calls do not reach the client",
            leaked,
        ),
    ):
        held = works if name == ALLOWED else not faults
        word = "arrive" if name == ALLOWED else "none arrives"
        yield ProbeOutcome(
            probe=name,
            method=method,
            family=Family.NETWORK,
            verdict=(Verdict.PASS if works else Verdict.INCONCLUSIVE) if held else Verdict.FAIL,
            expected=word,
            observed=word if held else "; ".join(faults) or str(arrived),
            evidence=evidence,
            about=about,
        )


def _is_of_server(answers: Sequence[Mapping[str, Any]]) -> bool:
    return [each.get("result", {}).get("by") for each in answers] == ["server"]


def _is_hostile(message: Mapping[str, Any], tools: Collection[str], talk: _Talk) -> bool:
    """Whether a message that the client received is one of the server that must not pass."""
    if "jsonrpc" not in message or ("method" in message and "id" in message):
        return True
    result = message.get("result") or {}
    unlisted = any(not lists_tool(tools, str(each.get("name"))) for each in result.get("tools", ()))
    return unlisted or (message.get("id") in {each.number for each in talk.refused} and bool(result))
