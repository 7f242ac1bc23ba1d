"""Sessions with rules about tools (`mcp`): the server gets only calls of listed tools.

Tests of session/request_rules.py.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.session.events import DeniedRequest
from sandwright.session.request_rules import request_rule, request_words
from support.canary import canary
from support.httpsessions import HttpSession, http_session
from support.netlab import WORLD, lab

KEY = "mcp-REALrealREALrealREALreal0123456789"
URL = "https://api.example:444/mcp"
POLICY = """\
schema: 1
method: bwrap
network:
  mode: proxy
  http:
    - {host: 'api.example:444', mcp: {tools: [search]}}
credentials:
  http:
    - {host: 'api.example:444', header: authorization, scheme: Bearer, from: 'env:API_KEY'}
"""


@pytest.fixture
def setup(network_lab: None, tmp_path: Path) -> Iterator[HttpSession]:
    (tmp_path / "canary").mkdir()
    with contextlib.ExitStack() as stack:
        world = stack.enter_context(lab())
        with world.inside():
            running = canary(tmp_path / "canary", ["api.example"], WORLD, 444)
            upstream = stack.enter_context(running)
        found = http_session(tmp_path, upstream, {WORLD: "api.example"})
        found.environment["API_KEY"] = KEY
        yield found


def call(name: str) -> str:
    """curl's words for a call of a tool."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}
    return f"-H 'Content-Type: application/json' {URL} -d '{json.dumps(message)}'"


@pytest.mark.needs("bwrap", "haproxy", "squid", "ip", "curl", "unshare", "openssl")
def test_a_session_calls_listed_tools_and_reports_others(setup: HttpSession) -> None:
    (setup.project / "sandbox.yaml").write_text(POLICY)
    log = setup.base / "audit.log"
    done = setup.run(
        setup.curl(call("search"), call("delete_repo"), call("delete_repo")), "--audit", str(log)
    )
    assert done.returncode == 0, done.stderr
    assert setup.upstream.mcp.called == ["search"]
    assert [each.header("authorization") for each in setup.upstream.arrived] == [[f"Bearer {KEY}"]]
    assert "sandwright: refused: the tool delete_repo: no mcp rule lists it" in done.stdout
    assert f"refused: the request POST {URL} tools/call delete_repo, 2 times: network.http" in done.stderr
    assert "{http: [..., {host: 'api.example:444', mcp: {tools: ['delete_repo']}}]}" in done.stderr
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["tool"] for each in lines if each["event"] == "request"] == ["search"]
    refused = [each for each in lines if each["event"] == "refused"]
    assert [(each["reason"], each["tool"]) for each in refused] == [("tool", "delete_repo")]


def denied(reason: str, tool: str, path: str = "/mcp") -> DeniedRequest:
    return DeniedRequest(host="m.example:443", method="POST", path=path, reason=reason, tool=tool)


@pytest.mark.parametrize(
    ("refused", "words", "rule"),
    [
        (
            denied("tool", "admin"),
            "POST https://m.example/mcp tools/call admin",
            "{host: 'm.example', mcp: {tools: ['admin']}}",
        ),
        (
            denied("tool", "admin", "/x/mcp"),
            "POST https://m.example/x/mcp tools/call admin",
            "{host: 'm.example', paths: ['/x/mcp'], mcp: {tools: ['admin']}}",
        ),
        (denied("tool", "a*"), "POST https://m.example/mcp tools/call a*", None),
        (denied("tool", "a?b"), "POST https://m.example/mcp tools/call a?b", None),
        (denied("tool", "x" * 129), f"POST https://m.example/mcp tools/call {'x' * 129}", None),
        (denied("tool", "a", "/**"), "POST https://m.example/** tools/call a", None),
    ],
)
def test_a_proposed_rule_allows_one_tool(refused: DeniedRequest, words: str, rule: str | None) -> None:
    assert (request_words(refused, "m.example"), request_rule(refused, "m.example")) == (words, rule)
