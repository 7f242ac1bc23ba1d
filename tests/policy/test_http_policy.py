"""The fields `network.http` and `credentials.http`: their values, the merge of layers, and the limits.

Tests of policy/resolve_http.py.
Tests of policy/floor_http.py: the managed policy's limits.
Tests of policy/http_credentials.py.
"""

from __future__ import annotations

import pytest

from sandwright.api import Policy
from sandwright.errors import DocumentError, UsageError
from sandwright.inputs import LiveHost
from sandwright.policy import load
from sandwright.policy.explain import explain
from sandwright.policy.facts import HostFacts
from sandwright.policy.policy_warnings import collect_warnings
from sandwright.policy.resolved import ResolvedPolicy

FACTS = HostFacts(os="linux", home="/home/u", project="/home/u/p")
API = "{host: api.example, methods: [GET], paths: ['/repos/acme/**']}"
SECRET = "{host: api.example, header: X-Api-Key, from: 'env:API_KEY'}"


def _resolve(project: str, *, floor: str = "", user: str = "") -> ResolvedPolicy:
    layers = [
        load.layer(floor, kind="floor", file="floor.yaml"),
        load.layer(user, kind="user", file="user.yaml"),
        load.layer(project, kind="project", file="project.yaml"),
    ]
    return Policy.from_layers(layers).resolve(FACTS)


def _http(*rules: str, more: str = "", secrets: str = "") -> str:
    text = f"network: {{mode: proxy, http: [{', '.join(rules)}]{more}}}\n"
    return text + (f"credentials: {{http: [{secrets}]}}\n" if secrets else "")


def test_rules_for_a_host_add_up() -> None:
    (host,) = _resolve(_http(API, "{host: API.example., methods: [POST], paths: [/upload]}")).network.http
    assert (host.host, host.port, len(host.rules)) == ("api.example", 443, 2)
    decided = {
        line: host.decide(*line.split(" ")) for line in ("GET /repos/acme/x", "POST /upload", "GET /up")
    }
    assert [isinstance(each, str) for each in decided.values()] == [False, False, True]


def test_layers_replace_and_inherit() -> None:
    user = _http(API, secrets=SECRET)
    names = [each.name for each in _resolve("network: {http: []}", user=user).network.http]
    assert names == []
    both = _resolve("network: {http: [..., {host: b.example}]}", user=user)
    assert [each.name for each in both.network.http] == ["api.example", "b.example"]
    assert [each.header for each in both.credentials.http] == ["x-api-key"]
    assert _resolve("credentials: {http: []}", user=user).credentials.http == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_http("{host: '*.example.org'}"), "name each host"),
        (_http("{host: 192.0.2.1}"), "is an address"),
        (_http("{host: 'a.example:*'}"), "name one port"),
        (_http("{host: a.example, methods: [get]}"), "in capitals"),
        (_http("{host: a.example, methods: [CONNECT]}"), "is no method"),
        (_http("{host: a.example, paths: [x]}"), "must begin with /"),
        (_http("{host: a.example, paths: ['/x?y']}"), "leave out the query"),
        (_http("{host: a.example, paths: [/a/../b]}"), "one of dots"),
        (_http("{host: a.example, paths: [/a//b]}"), "an empty segment"),
        (_http("{host: a.example, paths: ['/a;b']}"), "not compared"),
        (_http("{host: a.example, paths: ['/%2e']}"), "not compared"),
        (_http("{host: a.example, paths: ['/a**']}"), "a whole segment"),
        (_http("{host: a.example, git: read}"), "git needs repos"),
        (_http("{host: a.example, repos: [a/b]}"), "repos needs git"),
        (_http("{host: a.example, git: read, repos: [a/b], paths: [/x]}"), "exclude each other"),
        (_http("{host: a.example, git: read, repos: [a/b.git]}"), "without .git"),
        (_http("{host: a.example, git: read, repos: [a/../b]}"), "is no repository"),
        (_http("{host: a.example}", more=", allow: [a.example]"), "list it in one"),
        (_http("{host: 'a.example:8443'}", more=", allow: [a.example]"), "list it in one"),
        (_http("{host: a.example}", secrets=SECRET), "needs rules in network.http"),
        (_http(API, secrets=f"{SECRET}, {SECRET}"), "another entry gives"),
        (_http(API, secrets=SECRET.replace("X-Api-Key", "Host")), "cannot hold a secret"),
        (_http(API, secrets=SECRET.replace("X-Api-Key", "'a b'")), "no name of a header"),
        (_http(API, secrets=SECRET.replace("env:API_KEY", "sk-real-key")), "must be env:NAME"),
        (_http(API, secrets=SECRET.replace("env:API_KEY", "env:A B")), "A B"),
        (_http(API, secrets=SECRET.replace("env:API_KEY", "file:secret")), "write the path in full"),
        (_http(API, secrets=SECRET.replace("env:API_KEY", "keyring:x")), "SERVICE/ACCOUNT"),
        (_http(API, secrets=SECRET.replace("env:API_KEY", 'cmd:"x')), "cmd"),
        (_http(API, secrets=SECRET.replace("}", ", scheme: Basic}")), "Basic"),
        ("network: {mode: host, http: [{host: a.example}]}", "nothing is filtered"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises((DocumentError, UsageError), match=message.replace("*", r"\*")):
        _resolve(text)


FLOOR = _http(API, more=", allow: [tunnel.example]", secrets=SECRET)


@pytest.mark.parametrize(
    "text",
    [
        _http(API, secrets=SECRET),
        _http("{host: api.example, methods: [], paths: ['/repos/acme/**']}"),
        _http("{host: tunnel.example}"),
        "network: {http: [], allow: []}",
    ],
)
def test_a_floor_is_kept_by(text: str) -> None:
    _resolve(text, floor=FLOOR)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_http("{host: api.example}"), "more than the floor allows"),
        (
            _http("{host: api.example, methods: [GET, POST], paths: ['/repos/acme/**']}"),
            "more than the floor",
        ),
        (_http("{host: api.example, methods: [GET], paths: ['/**']}"), "more than the floor"),
        (_http("{host: other.example}"), "in neither list"),
        (_http(API.replace("}", ", private: true}")), "may not be private"),
        ("network: {http: [], allow: [api.example]}", "not in the floor's network.allow"),
        (_http(API, secrets=SECRET.replace("API_KEY", "OTHER")), "not in the floor's credentials.http"),
        (_http(API, secrets=SECRET.replace("X-Api-Key", "x-other")), "not in the floor's credentials.http"),
    ],
)
def test_a_floor_is_not_loosened_by(text: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        _resolve(text, floor=FLOOR)


def test_a_tunnel_past_a_floor_without_tunnels_is_refused() -> None:
    with pytest.raises(DocumentError, match="leads past the floor"):
        _resolve("network: {http: [], allow: [api.example]}", floor=_http(API))


WIDE = _http(API, more=", allow: ['*.corp.example']").replace("api.", "api.corp.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("network: {http: []}", "leads past the floor"),
        ("network: {http: [{host: b.corp.example}]}", "leads past the floor"),
        ("network: {http: [], allow: ['api.corp.example:80']}", "leads past the floor"),
        (_http("{host: api.corp.example}"), "more than the floor allows"),
        (_http("{host: 'api.corp.example:80'}"), "in neither list"),
    ],
)
def test_a_floors_wildcard_leads_not_past_its_rules(text: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        _resolve(text, floor=WIDE)
    _resolve("network: {http: [{host: b.corp.example}, ...]}", floor=WIDE)
    _resolve("network: {mode: none, http: []}", floor=WIDE)


def test_rules_of_a_higher_layer_close_a_tunnel() -> None:
    policy = _resolve(_http(API), user="network: {mode: proxy, allow: [api.example, b.example]}")
    assert explain(policy, "request", "GET https://api.example/repos/acme/x").allowed
    for subject in ("api.example:80", "api.example:22"):
        assert not explain(policy, "connect", subject).allowed
    assert not explain(policy, "request", "GET https://api.example/other").allowed
    assert explain(policy, "connect", "b.example:443").allowed


@pytest.mark.parametrize(("key", "agents"), [("anthropic", ["claude", "opencode", "aider"]),
    ("gemini", ["gemini", "opencode", "aider"]), ("openai", ["codex", "opencode", "aider"])])  # fmt: skip
def test_presets_with_keys_close_the_tunnels_of_agents(key: str, agents: list[str]) -> None:
    for agent in agents:
        extends = f"extends: [agent-{agent}, key-{key}]"
        policy = _resolve(extends)
        (secret,) = policy.credentials.http
        assert secret.origin == f"env:{key.upper()}_API_KEY"
        assert _resolve(f"extends: [agent-{agent}]").environment.passes(secret.variable)
        assert not policy.environment.passes(secret.variable)
        assert not explain(policy, "connect", f"{secret.host}:80").allowed
        assert explain(policy, "request", f"POST https://{secret.host}/v1/x").allowed


@pytest.mark.parametrize("rule", ["git: read", "repos: [a/b]", "git: read, repos: [a/b], paths: [/x]"])
def test_a_faulty_rule_is_an_error_with_a_floor(rule: str) -> None:
    text = _http(f"{{host: a.example, {rule}}}")
    with pytest.raises(DocumentError, match=r"repos|exclude"):
        _resolve(text, floor="network: {mode: proxy, allow: [a.example]}")
    with pytest.raises(DocumentError, match="in neither list"):
        _resolve(text, floor=_http(API))


def test_the_secrets_variable_never_passes() -> None:
    policy = _resolve("environment: {pass: ['API_*']}\n" + _http(API, secrets=SECRET))
    for name in ("API_KEY", "API_KEY_FILE", "API_KEY_COMMAND"):
        assert not policy.environment.passes(name)
    assert "placeholder" in explain(policy, "env", "API_KEY").ground.text
    with pytest.raises(DocumentError, match="holds a secret"):
        _resolve("filesystem: {read: ['/srv/${API_KEY}']}\n" + _http(API, secrets=SECRET))


@pytest.mark.parametrize(
    ("request_", "allowed"),
    [
        ("GET https://api.example/repos/acme/x?page=2", True),
        ("POST https://api.example/repos/acme/x", False),
        ("GET https://api.example/repos/acme/../x", False),
        ("GET https://api.example:8443/repos/acme/x", False),
        ("GET https://tunnel.example/anything", True),
        ("GET https://other.example/", False),
    ],
)
def test_a_request_is_explained(request_: str, allowed: bool) -> None:
    answer = explain(_resolve(_http(API, more=", allow: [tunnel.example]")), "request", request_)
    assert answer.allowed is allowed
    assert answer.ground.source.file == "project.yaml"


@pytest.mark.parametrize(
    "text", ["GET", "GET api.example/", "GET http://api.example/", "x https://a.example/"]
)
def test_what_is_no_request_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        explain(_resolve(_http(API)), "request", text)


@pytest.mark.parametrize(
    ("allow", "warned"),
    [("'*'", True), ("other.example", False), ("'*.api.example.org'", False), ("'*.example.org'", True)],
)
def test_a_tunnel_to_other_names_is_warned_about(allow: str, warned: bool) -> None:
    rules = "{host: api.example.org, methods: [GET]}"
    policy = _resolve(_http(rules, more=f", allow: [{allow}]"))
    found = collect_warnings(policy, LiveHost(), mounts=False)
    assert any("past its rules in network.http" in each for each in found) is warned
