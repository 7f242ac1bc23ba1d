"""The rules of `network.http` that `learn` proposes: as narrow as the requests, and within the policy.

Tests of learn/http_rules.py.
"""

from __future__ import annotations

import pytest
import yaml

from sandwright import HostFacts, Policy, ResolvedPolicy
from sandwright.learn.http_rules import http_items
from sandwright.session.access_log import RecordedRequest

SECRET = "credentials: {http: [{host: api.example, header: x-api-key, from: 'file:/k', variable: K}]}\n"


def _policy(rules: str, more: str = "") -> ResolvedPolicy:
    text = f"schema: 1\nmethod: bwrap\nnetwork: {{mode: proxy, http: [{rules}]}}\n{more}"
    return Policy.from_text(text).resolve(HostFacts(os="linux", home="/home/u", project="/home/u/p"))


def _proposed(rules: str, *requests: str, more: str = "") -> list[object]:
    """The proposed rules for requests: `METHOD PATH [TOOL]`."""
    found = []
    for each in requests:
        method, path, *tool = each.split(" ")
        found.append(RecordedRequest("api.example:443", method, path, "".join(tool), ""))
    policy = _policy(rules, more)
    items = list(http_items(found, policy))
    texts = [yaml.safe_load(each.text()) for each in items]
    assert texts == [each.policy_value() for each in items]
    _policy(", ".join(each.text() for each in items), more)
    return [{name: value for name, value in each.items() if name != "host"} for each in texts]


ANY = "{host: api.example}"
UUID = "123e4567-e89b-12d3-a456-426614174000"


@pytest.mark.parametrize(
    ("requests", "rules"),
    [
        (["GET /user", "POST /user", "GET /a"], [("GET", ["/a"]), ("GET POST", ["/user"])]),
        (["GET /repos/a/issues/17", "GET /repos/a/issues/3"], [("GET", ["/repos/a/issues/*"])]),
        ([f"GET /runs/{UUID}/log", f"GET /blobs/{'0a' * 20}"], [("GET", ["/blobs/*", "/runs/*/log"])]),
        ([f"GET /files/{each}" for each in "abcd"], [("GET", ["/files/*"])]),
        ([f"GET /files/{each}" for each in "abc"], [("GET", ["/files/a", "/files/b", "/files/c"])]),
        ([f"GET /api/{each}/x" for each in "abcdefghijklm"], [("GET", ["/api/**"])]),
        ([f"GET /{each}/x" for each in "abcdefghijklm"], [("GET", ["/**"])]),
        (["GET /a*", "GET /it's", "GET /%20"], [("GET", ["/%20", "/it's"])]),
    ],
)
def test_paths_are_generalised(requests: list[str], rules: list[tuple[str, list[str]]]) -> None:
    assert _proposed(ANY, *requests) == [{"methods": words.split(), "paths": paths} for words, paths in rules]


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        ("/issues/17", "/issues/17"),
        ("/issues/1*", "/issues/17"),
        ("/issues/*", "/issues/*"),
        ("/*/*", "/issues/*"),
        ("/**", "/issues/*"),
        ("/**/17", "/issues/17"),
        ("/**/*", "/issues/*"),
    ],
)
def test_no_rule_goes_beyond_the_policy(paths: str, found: str) -> None:
    rule = f"{{host: api.example, methods: [GET], paths: ['{paths}']}}"
    assert _proposed(rule, "GET /issues/17") == [{"methods": ["GET"], "paths": [found]}]


def test_git_and_tools_are_rules_of_their_own() -> None:
    git = "{host: api.example, git: write, repos: ['acme/*']}"
    fetched = ["GET /acme/a/info/refs", "POST /acme/a/git-upload-pack"]
    pushed = ["GET /acme/b.git/info/refs", "POST /acme/b.git/git-receive-pack"]
    assert _proposed(git, *fetched, *pushed) == [
        {"git": "read", "repos": ["acme/a"]},
        {"git": "write", "repos": ["acme/b"]},
    ]
    tools = "{host: api.example, mcp: {tools: ['*']}}, {host: api.example, paths: [/x]}"
    assert _proposed(tools, "POST /mcp", "POST /mcp search", "GET /x") == [
        {"paths": ["/mcp"], "mcp": {"tools": ["search"]}},
        {"methods": ["GET"], "paths": ["/x"]},
    ]


def test_a_secret_is_used_by_no_other_method() -> None:
    assert _proposed(ANY, more=SECRET) == [{"methods": []}]
    assert _proposed(ANY, "GET /x", more=SECRET) == [{"methods": ["GET"], "paths": ["/x"]}]
    assert _proposed(ANY) == []


def test_a_websocket_needs_a_rule_without_methods() -> None:
    requests = [RecordedRequest("api.example:443", each, "/x", "", "") for each in ("", "GET")]
    (item,) = http_items(requests, _policy("{host: api.example, private: true}"))
    assert item.rule == {"host": "api.example", "paths": ["/x"], "private": True}
