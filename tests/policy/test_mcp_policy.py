"""Rules about tools (`mcp`) in `network.http`: their values, their decisions, and their limits.

Tests of policy/mcp_rules.py.
"""

from __future__ import annotations

import random
import re

import pytest

from sandwright.api import Policy
from sandwright.change.compare import compare_policies
from sandwright.errors import ArtifactsTooWide, DocumentError
from sandwright.evaluate.proxied import check_inspection
from sandwright.methods.compare import explain as ask_methods
from sandwright.policy import load
from sandwright.policy.explain import explain
from sandwright.policy.facts import HostFacts
from sandwright.policy.http_rules import HttpHost, HttpRule
from sandwright.policy.loosening import loosenings
from sandwright.policy.mcp_rules import includes_tools, lists_tool, tool_pattern
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.haproxy import filter_rules, haproxy_configuration

FACTS = HostFacts(os="linux", home="/home/u", project="/home/u/p")
MCP = "{host: m.example, mcp: {tools: [search, 'get_*']}}"
BESIDE = "{host: m.example, paths: ['/**']}"


def _resolve(*rules: str, floor: str = "") -> ResolvedPolicy:
    text = f"network: {{mode: proxy, http: [{', '.join(rules)}]}}\n"
    layers = [load.layer(floor, kind="floor", file="floor.yaml")] if floor else []
    return Policy.from_layers([*layers, load.layer(text, kind="project", file="p.yaml")]).resolve(FACTS)


def _host(*rules: str) -> HttpHost:
    (host,) = _resolve(*rules).network.http
    return host


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{host: m.example, mcp: {tools: ['a b']}}", "is no tool"),
        ("{host: m.example, mcp: {tools: ['é']}}", "is no tool"),
        ("{host: m.example, mcp: {tools: ['']}}", "is no tool"),
        (f"{{host: m.example, mcp: {{tools: [{'x' * 129}]}}}}", "longer than 128"),
        ("{host: m.example, mcp: {}}", "tools: is required"),
        ("{host: m.example, mcp: {tools: [a], deny: [b]}}", "no such key"),
        ("{host: m.example, mcp: {tools: [a]}, methods: [GET]}", "mcp and methods exclude each other"),
        ("{host: m.example, mcp: {tools: [a]}, git: read, repos: [a/b]}", "mcp and git and repos exclude"),
        (f"{MCP}, {{host: m.example}}", "name paths here, too"),
        (f"{MCP}, {{host: m.example, methods: [GET]}}", "name paths here, too"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_line(rule: str, message: str) -> None:
    with pytest.raises(DocumentError, match=f"p.yaml:1:[0-9]+: .*{message}"):
        _resolve(rule)


DECIDED = {
    "POST /mcp": True,
    "GET /mcp": True,
    "DELETE /mcp": True,
    "PUT /mcp": "rule",
    "POST /mcp?x=1": "rule",
    "POST /mcp tools/list": True,
    "POST /mcp initialize": True,
    "POST /mcp notifications/initialized": True,
    "POST /mcp tools/call search": True,
    "POST /mcp tools/call get_issue": True,
    "POST /mcp tools/call get_": True,
    "POST /mcp tools/call searchx": "tool",
    "POST /mcp tools/call Search": "tool",
    "POST /mcp tools/call get_é": "tool",
    f"POST /mcp tools/call get_{'x' * 125}": "tool",
    "POST /mcp tools/call": "tool",
    "POST /mcp resources/read": "call",
    "POST /mcp tools/calls": "call",
    "POST /mcp/": "rule",
    "POST /MCP": "rule",
    "GET /mcp/sse": "rule",
    "PUT /mcpx": True,
    "PUT /other": True,
}


@pytest.mark.parametrize("asked", DECIDED)
def test_what_rules_decide(asked: str) -> None:
    method, target, *call = asked.split(" ", 2)
    decided = _host(MCP, BESIDE).decide(method, target, *call)
    assert (True if isinstance(decided, HttpRule) else decided) == DECIDED[asked]
    answer = explain(
        _resolve(MCP, BESIDE), "request", " ".join((method, f"https://m.example{target}", *call))
    )
    assert answer.allowed is isinstance(decided, HttpRule)


def test_other_paths_and_several_rules() -> None:
    host = _host(
        "{host: m.example, paths: [/a/mcp], mcp: {tools: [a]}}",
        "{host: m.example, paths: ['/*/mcp'], mcp: {tools: [b]}}",
        "{host: m.example, paths: [/none/mcp], mcp: {tools: []}}",
    )
    allowed = {
        (path, tool)
        for path in ("/a/mcp", "/b/mcp", "/mcp")
        for tool in ("a", "b", "c")
        if isinstance(host.decide("POST", path, f"tools/call {tool}"), HttpRule)
    }
    assert allowed == {("/a/mcp", "a"), ("/a/mcp", "b"), ("/b/mcp", "b")}
    assert isinstance(host.decide("POST", "/none/mcp", "tools/list"), HttpRule)


@pytest.mark.parametrize(
    ("path", "spellings"),
    [
        ("/mcp", ("/mcp%2F", "/mcp%2fmessages", "/mcp/a%2fb", "/MCP%2F")),
        ("/srv/@a%2fb", ("/srv/@a/b", "/srv%2F@a%2Fb", "/srv/@a%2fb%2Fc")),
    ],
)
def test_an_escaped_slash_leads_to_no_other_rule(path: str, spellings: tuple[str, ...]) -> None:
    """Servers that decode a path before they look for its handler treat it as a slash (CGI, WSGI)."""
    tools = f"{{host: m.example, paths: ['{path}'], mcp: {{tools: [search]}}}}"
    host = _host(tools, BESIDE, "{host: m.example, paths: ['/@npm%2f*']}")
    assert {each: host.decide("POST", each, "tools/call delete") for each in spellings} == dict.fromkeys(
        spellings, "rule"
    )
    assert isinstance(host.decide("POST", "/@npm%2fmcp"), HttpRule)
    assert isinstance(host.decide("POST", path, "tools/call search"), HttpRule)


FLOOR = f"network: {{mode: proxy, http: [{MCP}, {BESIDE}]}}\n"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([MCP, BESIDE], ""),
        (["{host: m.example, mcp: {tools: [search]}}"], ""),
        (["{host: m.example, mcp: {tools: ['get_i*', get_x]}}", BESIDE], ""),
        (["{host: m.example, mcp: {tools: []}}"], ""),
        (["{host: m.example, mcp: {tools: [search, delete]}}"], "tools search, delete at /mcp: more than"),
        (["{host: m.example, mcp: {tools: ['*']}}"], "more than"),
        (["{host: m.example, mcp: {tools: ['get*']}}"], "more than"),
        (["{host: m.example, paths: [/x], mcp: {tools: [search]}}"], "more than"),
        ([BESIDE], "any method /\\*\\*: more than"),
        (["{host: m.example, paths: [/mcp]}"], "more than"),
        (["{host: m.example}"], "more than"),
        (["{host: m.example, paths: [/x], mcp: {tools: []}}", BESIDE], "more than"),
    ],
)
def test_a_floor_limits_tools(rules: list[str], message: str) -> None:
    if not message:
        _resolve(*rules, floor=FLOOR)
        return
    with pytest.raises(DocumentError, match=message):
        _resolve(*rules, floor=FLOOR)


def test_a_floor_without_tools_may_be_narrowed_to_some() -> None:
    _resolve(MCP, floor="network: {mode: proxy, http: [{host: m.example}]}\n")
    _resolve(MCP, floor="network: {mode: proxy, allow: [m.example]}\n")


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ([MCP], []),
        (["{host: m.example, mcp: {tools: [search, delete]}}"], ["m.example: tools search, delete at /mcp"]),
        (["{host: m.example, paths: ['/**']}"], ["m.example: any method /**"]),
    ],
)
def test_more_tools_need_approval(rules: list[str], found: list[str]) -> None:
    found_ = loosenings(_resolve(*rules), _resolve(MCP), remote=(), image_root=frozenset())
    assert [str(each) for each in found_ if "requests from" in str(each)] == [
        f"requests from {each}" for each in found
    ]


def test_patterns_include_what_they_match() -> None:
    """Tested with random names: if one list includes another, it lists every tool of it."""
    draw = random.Random(38)
    included = 0
    for _ in range(4000):
        wider, narrower = (
            [
                "".join(draw.choice("ab*-") for _ in range(draw.randint(1, 4)))
                for _ in range(draw.randint(1, 2))
            ]
            for _ in range(2)
        )
        if includes_tools(wider, narrower):
            included += 1
            for pattern in narrower:
                name = re.sub(r"\*", lambda _: "".join(draw.choices("ab-", k=draw.randint(0, 3))), pattern)
                assert lists_tool(wider, name) or not name, (wider, narrower, name)
    assert included > 300


@pytest.mark.parametrize(
    ("pattern", "name"), [("a.b", "axb"), ("a*", "a b"), ("*", ""), ("a", "a\n"), ("*", "x" * 129)]
)
def test_a_pattern_is_narrow(pattern: str, name: str) -> None:
    assert not lists_tool([tool_pattern(pattern)], name)


def test_the_gate_takes_what_is_rendered() -> None:
    policy = _resolve(MCP, BESIDE)
    check_inspection(policy, haproxy_configuration(policy, "/a.pem"), filter_rules(policy))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("use_backend filter_1 if tools", "# none"),
        ("server filter 127.0.0.1:${SW_FILTER}", "server host 127.0.0.1:${SW_OUT}"),
        ("acl tools path -m reg -i '^(/|%2[Ff])mcp((/|%2[Ff]).*)?$'", "acl tools path -m str /none"),
        ("if !tools paths_2", "if paths_2"),
    ],
)
def test_the_gate_refuses_a_way_past_the_filter(old: str, new: str) -> None:
    policy = _resolve(MCP, BESIDE)
    text = haproxy_configuration(policy, "/a.pem")
    assert old in text
    with pytest.raises((ArtifactsTooWide, DocumentError)):
        check_inspection(policy, text.replace(old, new), filter_rules(policy))


def test_the_gate_refuses_wider_rules_of_the_filter() -> None:
    policy = _resolve(MCP)
    text = haproxy_configuration(policy, "/a.pem")
    for wider in (
        "{host: m.example, mcp: {tools: ['*']}}",
        "{host: m.example, mcp: {tools: ['get_*', 'search*']}}",
    ):
        with pytest.raises(ArtifactsTooWide, match="lists this tool"):
            check_inspection(policy, text, filter_rules(_resolve(wider)))


def test_diff_names_a_tool_more() -> None:
    old, new = _resolve(MCP), _resolve("{host: m.example, mcp: {tools: [search, 'get_*', delete]}}")
    difference = compare_policies(old, new, ["bwrap"])
    found = [str(each.case.subject) for each in difference.cases if each.case.question == "request"]
    assert found == ["POST https://m.example/mcp tools/call delete"]
    assert all(each.widened for each in difference.cases)


def _stdio(text: str, floor: str = "", user: str = "") -> ResolvedPolicy:
    below = [load.layer(floor, kind="floor", file="floor.yaml")] if floor else []
    below += [load.layer(user, kind="user", file="user.yaml")] if user else []
    return Policy.from_layers([*below, load.layer(text, kind="project", file="p.yaml")]).resolve(FACTS)


@pytest.mark.parametrize(
    ("text", "below", "tools"),
    [
        ("method: bwrap\n", "", None),
        ("mcp: {tools: []}\n", "", ()),
        ("mcp: {tools: [a, 'b*', a]}\n", "", ("a", "b*")),
        ("method: bwrap\n", "mcp: {tools: [a]}\n", ("a",)),
        ("mcp: {tools: [b]}\n", "mcp: {tools: [a]}\n", ("b",)),
        ("mcp: {tools: [..., b]}\n", "mcp: {tools: [a]}\n", ("a", "b")),
    ],
)
def test_tools_of_the_command_by_layers(text: str, below: str, tools: tuple[str, ...] | None) -> None:
    assert _stdio(text, user=below).mcp_tools == tools


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mcp: {}", "mcp.tools: is required"),
        ("mcp: {tools: ['a b']}", "is no tool"),
        ("mcp: {tools: [a], paths: [/x]}", "no such key"),
        ("mcp: null", "mcp"),
    ],
)
def test_what_makes_no_sense_for_the_command_is_refused(text: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        _stdio(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method: bwrap\n", ""),
        ("mcp: {tools: [get_x, 'get_*']}\n", ""),
        ("mcp: {tools: []}\n", ""),
        ("mcp: {tools: [search]}\n", "search is not in the floor's mcp.tools"),
        ("mcp: {tools: ['*']}\n", "not in the floor's mcp.tools"),
    ],
)
def test_a_floor_limits_the_tools_of_the_command(text: str, message: str) -> None:
    if not message:
        assert _stdio(text, floor="mcp: {tools: ['get_*']}\n").mcp_tools is not None
        return
    with pytest.raises(DocumentError, match=re.escape(message)):
        _stdio(text, floor="mcp: {tools: ['get_*']}\n")


def test_diff_names_a_tool_more_of_the_command() -> None:
    old, new = _stdio("mcp: {tools: [a, 'b*']}\n"), _stdio("mcp: {tools: [a, b1, c]}\n")
    for before, after, widened in ((old, new, True), (new, old, False)):
        found = [
            each for each in compare_policies(before, after, ["bwrap"]).settings if each.widened is widened
        ]
        assert any("lets a client of MCP call the tool" in str(each) for each in found)
    gone = compare_policies(old, _stdio("method: bwrap\n"), ["bwrap"]).settings
    assert [str(each) for each in gone if each.widened] == ["lets a client of MCP send any message: mcp"]


@pytest.mark.parametrize(
    ("text", "tool", "allowed", "said"),
    [
        ("mcp: {tools: [a, 'get_*']}\n", "get_x", True, "allowed by tools get_* (project p.yaml:1:18)"),
        (
            "mcp: {tools: [a, 'get_*']}\n",
            "delete",
            False,
            "denied by mcp.tools, which does not list it (project",
        ),
        ("mcp: {tools: []}\n", "a", False, "denied by mcp.tools, which does not list it"),
        ("method: bwrap\n", "a", True, "allowed by no mcp: the messages of the command are not read"),
    ],
)
def test_explain_answers_about_a_tool(text: str, tool: str, allowed: bool, said: str) -> None:
    answer = explain(_stdio(text), "tool", tool)
    assert answer.allowed is allowed
    assert said in str(answer)


def test_no_artifact_decides_about_a_tool() -> None:
    found = ask_methods(_stdio("mcp: {tools: [a]}\n"), "tool", "b", methods=["bwrap", "kubernetes"])
    rows = {row.method: (row.status, row.level) for row in found.rows}
    assert rows["bwrap"] == ("not asked", "exact")
    assert rows["kubernetes"] == ("not asked", "cannot")
    assert found.allowed is False
