"""The connections of a Pod: its filter, its NetworkPolicy, the way to the proxy; and its variables.

Tests of builder/sandwright_kubernetes/filters.py.
Tests of builder/sandwright_kubernetes/network.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from cluster.clusters import (
    FAMILIES,
    PROJECT,
    Json,
    cluster_policy,
    manifests,
    pod_of,
    socket_answer,
)
from sandwright.errors import RenderError
from sandwright_kubernetes.render import render_kubernetes


def test_the_filter_is_named_by_its_content() -> None:
    artifacts = {each.name: each for each in render_kubernetes(cluster_policy("extends: []"))}
    digest = artifacts["seccomp.json"].digest.removeprefix("sha256:")
    profile = pod_of("extends: []")["securityContext"]["seccompProfile"]
    assert profile == {"type": "Localhost", "localhostProfile": f"sandwright-{digest[:32]}.json"}
    other = pod_of("extends: []\nprocess: {seccomp: strict}")["securityContext"]["seccompProfile"]
    assert other != profile


def _answers(text: str, **facts: Any) -> dict[str, str]:
    """The answers of a policy's filter to sockets of each family."""
    artifact = next(
        each for each in render_kubernetes(cluster_policy(text, **facts)) if each.name == "seccomp.json"
    )
    return {name: socket_answer(artifact.content, family) for name, family in FAMILIES.items()}


@pytest.mark.parametrize("profile", ["default", "strict", "build"])
@pytest.mark.parametrize(
    ("network", "ip"),
    [("none", "SCMP_ACT_ERRNO 1 (EPERM)"), ("proxy", "SCMP_ACT_ALLOW"), ("host", "SCMP_ACT_ALLOW")],
)
def test_without_a_network_no_ip_socket_is_made(network: str, ip: str, profile: str) -> None:
    answers = _answers(f"extends: []\nnetwork: {{mode: {network}}}\nprocess: {{seccomp: {profile}}}\n")
    refused = "SCMP_ACT_ERRNO 1 (EPERM)"
    expected = {
        "unix": "SCMP_ACT_ALLOW",
        "inet": ip,
        "inet6": ip,
        "vsock": refused,
        "inet, upper bits set": ip,
    }
    assert answers == expected


SOCKETS = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]}
FILE = f"{PROJECT}/calls.json"


def _with_rule(*rules: Json, **changes: Any) -> str:
    return json.dumps({**SOCKETS, "syscalls": [*SOCKETS["syscalls"], *rules], **changes})


def _socket_rule(*arguments: tuple[int, str, int, int]) -> Json:
    made = [{"index": i, "op": f"SCMP_CMP_{op}", "value": v, "valueTwo": two} for i, op, v, two in arguments]
    return {"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": made}


@pytest.mark.parametrize(
    ("text", "open_"),
    [
        pytest.param(_with_rule(), False, id="no sockets"),
        pytest.param(_with_rule(_socket_rule((0, "EQ", 1, 0))), False, id="unix"),
        pytest.param(_with_rule(_socket_rule((0, "MASKED_EQ", 0xFFFFFFFF, 16))), False, id="netlink"),
        pytest.param(_with_rule({"names": ["socket"], "action": "SCMP_ACT_ALLOW"}), True, id="all"),
        pytest.param(_with_rule(_socket_rule((0, "EQ", 2, 0))), True, id="inet"),
        pytest.param(_with_rule(_socket_rule((0, "EQ", 10, 0), (1, "EQ", 1, 0))), True, id="inet6 streams"),
        pytest.param(_with_rule(_socket_rule((0, "EQ", 2 | 1 << 32, 0))), True, id="upper bits"),
        pytest.param(_with_rule(_socket_rule((0, "MASKED_EQ", 0x3, 2))), True, id="masked"),
        pytest.param(_with_rule(_socket_rule((0, "NE", 2, 0))), True, id="not inet"),
        pytest.param(_with_rule(_socket_rule((1, "EQ", 1, 0))), True, id="by type"),
        pytest.param(
            _with_rule({"names": ["io_uring_setup"], "action": "SCMP_ACT_LOG"}), True, id="io_uring"
        ),
        pytest.param(
            _with_rule({"names": ["socketcall"], "action": "SCMP_ACT_ALLOW"}), True, id="socketcall"
        ),
        pytest.param(_with_rule(defaultAction="SCMP_ACT_ALLOW"), True, id="default"),
    ],
)
def test_a_filter_from_a_file_must_close_the_network(text: str, *, open_: bool) -> None:
    facts: Json = {"texts": {FILE: text}, "platform": "linux/amd64", "kernel": "6.1.0"}
    closed = "extends: []\nprocess: {seccomp: $PROJECT/calls.json}\n"
    if open_:
        with pytest.raises(
            RenderError, match=r"sandbox\.yaml:4:20: process\.seccomp: .* lets IP sockets be made"
        ):
            pod_of(closed, **facts)
    else:
        assert pod_of(closed, **facts)["nodeSelector"]["kubernetes.io/arch"] == "amd64"
    assert pod_of(f"{closed}network: {{mode: host}}\n", **facts)


def test_shipped_filters_run_on_every_node() -> None:
    assert pod_of("extends: []")["nodeSelector"] == {"kubernetes.io/os": "linux"}


def _network(text: str) -> Json:
    spec: Json = manifests(cluster_policy(text))["networkpolicy.yaml"]["spec"]
    return spec


@pytest.mark.parametrize(
    ("mode", "egress"),
    [
        ("none", []),
        (
            "proxy",
            [
                {
                    "to": [
                        {
                            "podSelector": {
                                "matchLabels": {
                                    "app.kubernetes.io/name": "sandbox-p-60ad706f",
                                    "app.kubernetes.io/component": "proxy",
                                }
                            }
                        }
                    ],
                    "ports": [{"protocol": "TCP", "port": 3128}],
                }
            ],
        ),
        ("host", [{}]),
    ],
)
def test_network(mode: str, egress: list[Json]) -> None:
    text = f"extends: []\nnetwork: {{mode: {mode}}}\n"
    spec = _network(text)
    assert (spec["policyTypes"], spec["ingress"], spec["egress"]) == (["Ingress", "Egress"], [], egress)
    labels = manifests(cluster_policy(text))["job.yaml"]["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()


def test_names_are_resolved_where_the_network_is_open_only() -> None:
    for mode in ("none", "proxy"):
        pod = pod_of(f"extends: []\nnetwork: {{mode: {mode}}}\n")
        assert (pod["dnsPolicy"], pod["dnsConfig"]) == ("None", {"nameservers": ["127.0.0.1"]})
    assert pod_of("extends: []\nnetwork: {mode: host}\n")["dnsPolicy"] == "ClusterFirst"


def _environment(text: str, manifest: str = "job.yaml") -> dict[str, str]:
    document = manifests(cluster_policy(text))[manifest]
    spec = document["spec"]["template"]["spec"] if manifest == "job.yaml" else document["spec"]
    return {each["name"]: each["value"] for each in spec["containers"][0]["env"]}


def test_the_proxy_is_found_without_dns() -> None:
    text = "extends: []\nnetwork: {mode: proxy}\nenvironment: {set: {http_proxy: $$mine}}\n"
    found = _environment(text)
    address = "http://$(PROXY_SERVICE_HOST):3128"
    names = (
        "ALL_PROXY",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "all_proxy",
        "https_proxy",
        "npm_config_proxy",
        "PIP_PROXY",
    )
    assert {name: found[name] for name in names} == dict.fromkeys(names, address)
    assert found["http_proxy"] == "$$mine"
    assert found["no_proxy"] == "localhost,127.0.0.1,::1"
    assert pod_of(text)["enableServiceLinks"] is True
    assert _environment(text, "pod.yaml") == {"SANDWRIGHT_INSIDE": "1", "http_proxy": "$mine"}


def test_options_of_java_are_kept() -> None:
    text = 'extends: []\nnetwork: {mode: proxy}\nenvironment: {set: {JAVA_TOOL_OPTIONS: "-Da=$$(b)"}}\n'
    variables = {"PROXY_SERVICE_HOST": "10.9.8.7", "b": "x"}
    options = expanded(_environment(text)["JAVA_TOOL_OPTIONS"], variables)
    assert options.startswith("-Da=$(b) -Dhttp.proxyHost=10.9.8.7 -Dhttp.proxyPort=3128 ")


def expanded(value: str, variables: Mapping[str, str]) -> str:
    """The value after a kubelet's expansion: `$$` is a dollar sign, `$(NAME)` a variable, other dollars stay.

    The API reference defines this for EnvVar.value: https://kubernetes.io/docs/reference/kubernetes-api/.
    """
    made: list[str] = []
    at = 0
    while at < len(value):
        if value[at : at + 2] == "$$":
            made, at = [*made, "$"], at + 2
        elif value[at : at + 2] == "$(" and ")" in value[at:]:
            end = value.index(")", at)
            made, at = [*made, variables.get(value[at + 2 : end], value[at : end + 1])], end + 1
        else:
            made, at = [*made, value[at]], at + 1
    return "".join(made)


@pytest.mark.parametrize(
    "value", ["$(HOME)", "$$(HOME)", "$$$(HOME)", "$HOME", "$", "$$", "a$(b", "$(", "$()", "`id` ${X} $(id)"]
)
def test_nothing_is_put_into_a_value(value: str) -> None:
    assert expanded("$(HOME)", {"HOME": "/"}) == "/"
    text = f"extends: []\nenvironment: {{set: {{V: {json.dumps(value.replace('$', '$$'))}}}}}\n"
    assert expanded(_environment(text)["V"], {"HOME": "x", "id": "x", "": "x"}) == value
    assert _environment(text, "pod.yaml")["V"] == value
