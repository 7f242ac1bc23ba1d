"""Manifests of a cluster: golden, valid for the real schemas, restricted, and what a policy says is in
them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from goldens import CASES, case_policy, check_golden
from podsecurity import violations
from sandwright.errors import RenderError
from sandwright.evaluate.seccomp.command import evaluate_command
from sandwright.policy.facts import Entry, HostFacts
from sandwright.policy.policy import Policy
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.kubernetes import render_kubernetes
from sandwright.render.methods import render

RENDERED = [case for case in CASES if case != "hostile-names"]
VERSIONS = ("1.29", "1.33", kubernetes_validate.latest_version())
PROJECT = "/home/u/p"
DIRECTORIES = ("/", "/home", "/home/u", PROJECT, "/srv", "/tmp", f"{PROJECT}/src", f"{PROJECT}/closed")
FILES = (f"{PROJECT}/LICENSE", f"{PROJECT}/secret.key")
"""What is on the host of these tests."""

Json = dict[str, Any]


def _facts(**changes: Any) -> HostFacts:
    entries = {**dict.fromkeys(DIRECTORIES, Entry("directory")), **dict.fromkeys(FILES, Entry("file"))}
    base: Json = {"os": "linux", "home": "/home/u", "project": PROJECT, "entries": entries}
    return HostFacts(**{**base, **changes})


def _policy(text: str = "", **facts: Any) -> ResolvedPolicy:
    return Policy.from_text(f"schema: 1\nmethod: kubernetes\n{text}").resolve(_facts(**facts))


WRITES = "extends: []\nfilesystem: {write: [$PROJECT]}\n"


def _documents(policy: ResolvedPolicy) -> dict[str, Json]:
    """Every manifest by the name of its file."""
    return {
        each.name: yaml.load(each.content, yaml.CSafeLoader)
        for each in render_kubernetes(policy)
        if each.name.endswith(".yaml")
    }


def _pod(text: str, **facts: Any) -> Json:
    spec: Json = _documents(_policy(text, **facts))["job.yaml"]["spec"]["template"]["spec"]
    return spec


def _container(text: str, **facts: Any) -> Json:
    (container,) = _pod(text, **facts)["containers"]
    made: Json = container
    return made


@pytest.mark.parametrize("case", RENDERED)
def test_golden(case: str) -> None:
    check_golden(case, "kubernetes", render(case_policy(case), "kubernetes").artifacts)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", RENDERED)
def test_schemas_of_kubernetes(case: str, version: str) -> None:
    """The API server's own OpenAPI schemas, in which no key may stand that they don't have."""
    documents = _documents(case_policy(case))
    kinds = [document["kind"] for name, document in documents.items() if name != "kustomization.yaml"]
    assert {"Namespace", "NetworkPolicy", "Job", "Pod"} <= set(kinds)
    for name, document in documents.items():
        if name != "kustomization.yaml":
            kubernetes_validate.validate(document, version, strict=True)


def test_the_schemas_refuse() -> None:
    """The control of the test above."""
    job = _documents(_policy(WRITES))["job.yaml"]
    job["spec"]["template"]["spec"]["hostnetwork"] = False
    with pytest.raises(kubernetes_validate.ValidationError, match="hostnetwork"):
        kubernetes_validate.validate(job, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("case", RENDERED)
def test_restricted(case: str) -> None:
    documents = _documents(case_policy(case))
    assert violations(documents["job.yaml"]["spec"]["template"]["spec"]) == []
    labels = documents["namespace.yaml"]["metadata"]["labels"]
    assert {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")} == {
        "restricted"
    }


FIRST = "containers[0].securityContext"


@pytest.mark.parametrize(
    ("path", "value", "broken"),
    [
        ("hostNetwork", True, "hostNetwork"),
        ("securityContext.runAsNonRoot", None, f"{FIRST}.runAsNonRoot"),
        ("securityContext.seccompProfile", {"type": "Unconfined"}, f"{FIRST}.seccompProfile"),
        ("securityContext.runAsUser", 0, "securityContext.runAsUser"),
        ("containers.0.securityContext.capabilities.drop", [], f"{FIRST}.capabilities.drop"),
        ("containers.0.securityContext.privileged", True, f"{FIRST}.privileged"),
        ("volumes.0", {"name": "x", "hostPath": {"path": "/"}}, "volumes[0]"),
    ],
)  # fmt: skip
def test_the_list_of_controls_refuses(path: str, value: object, broken: str) -> None:
    spec: Any = _pod(WRITES)
    assert violations(spec) == []
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
    at = spec
    for part in parents:
        at = at[part]
    at[last] = value
    assert violations(spec) == [broken]


def test_what_every_sandbox_has() -> None:
    pod, container = _pod("extends: []"), _container("extends: []")
    assert pod["restartPolicy"] == "Never"
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"], pod["hostUsers"]) == (False,) * 3
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["runAsGroup"] == 65532
    assert container["securityContext"] == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp", "readOnly": False}]
    assert pod["volumes"] == [{"name": "tmp", "emptyDir": {"sizeLimit": "4Gi"}}]
    assert "workingDir" not in container
    job = _documents(_policy("extends: []"))["job.yaml"]["spec"]
    assert (job["backoffLimit"], job["ttlSecondsAfterFinished"]) == (0, 3600)
    assert "activeDeadlineSeconds" not in job


def test_limits() -> None:
    text = "extends: []\nresources: {memory: 1536MiB, cpus: 1.5, time: 90s}\n"
    granted = {"memory": "1536Mi", "cpu": "1500m", "ephemeral-storage": "5Gi"}
    asked = {"memory": "1536Mi", "cpu": "1500m", "ephemeral-storage": "256Mi"}
    assert _container(text)["resources"] == {"requests": asked, "limits": granted}
    assert _pod(text)["activeDeadlineSeconds"] == 90
    assert _documents(_policy(text))["job.yaml"]["spec"]["activeDeadlineSeconds"] == 90


@pytest.mark.parametrize(
    ("memory", "quantity"),
    [
        ("2GiB", "2Gi"),
        ("1TiB", "1Ti"),
        ("1KiB", "1Ki"),
        ("1500MB", "1500000000"),
        ("7B", "7"),
        ("1023MiB", "1023Mi"),
    ],
)
def test_quantities(memory: str, quantity: str) -> None:
    container = _container(f"extends: []\nresources: {{memory: {memory}}}\n")
    assert container["resources"]["limits"]["memory"] == quantity


def test_the_filter_is_named_by_its_content() -> None:
    artifacts = {each.name: each for each in render_kubernetes(_policy("extends: []"))}
    digest = artifacts["seccomp.json"].digest.removeprefix("sha256:")
    profile = _pod("extends: []")["securityContext"]["seccompProfile"]
    assert profile == {"type": "Localhost", "localhostProfile": f"sandwright-{digest[:32]}.json"}
    other = _pod("extends: []\nprocess: {seccomp: strict}")["securityContext"]["seccompProfile"]
    assert other != profile


def _answers(text: str, **facts: Any) -> dict[str, str]:
    """What the filter of a policy answers to sockets of each family."""
    artifact = next(each for each in render_kubernetes(_policy(text, **facts)) if each.name == "seccomp.json")
    return {name: _socket(artifact.content, family) for name, family in FAMILIES.items()}


FAMILIES = {"unix": 1, "inet": 2, "inet6": 10, "vsock": 40, "inet, upper bits set": 2 | 1 << 32}


def _socket(profile: bytes, family: int) -> str:
    return str(evaluate_command(profile, "seccomp.json", "socket", [str(family), "1"]).decision.action)


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
            _pod(closed, **facts)
    else:
        assert _pod(closed, **facts)["nodeSelector"]["kubernetes.io/arch"] == "amd64"
    assert _pod(f"{closed}network: {{mode: host}}\n", **facts)


def test_shipped_filters_run_on_every_node() -> None:
    assert _pod("extends: []")["nodeSelector"] == {"kubernetes.io/os": "linux"}


def _network(text: str) -> Json:
    spec: Json = _documents(_policy(text))["networkpolicy.yaml"]["spec"]
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
    labels = _documents(_policy(text))["job.yaml"]["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()


def test_names_are_resolved_where_the_network_is_open_only() -> None:
    for mode in ("none", "proxy"):
        pod = _pod(f"extends: []\nnetwork: {{mode: {mode}}}\n")
        assert (pod["dnsPolicy"], pod["dnsConfig"]) == ("None", {"nameservers": ["127.0.0.1"]})
    assert _pod("extends: []\nnetwork: {mode: host}\n")["dnsPolicy"] == "ClusterFirst"


def _environment(text: str, manifest: str = "job.yaml") -> dict[str, str]:
    document = _documents(_policy(text))[manifest]
    spec = document["spec"]["template"]["spec"] if manifest == "job.yaml" else document["spec"]
    return {each["name"]: each["value"] for each in spec["containers"][0]["env"]}


def test_the_proxy_is_found_without_dns() -> None:
    text = "extends: []\nnetwork: {mode: proxy}\nenvironment: {set: {http_proxy: mine}}\n"
    address = "http://$(PROXY_SERVICE_HOST):3128"
    names = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "https_proxy")
    assert _environment(text) == {"http_proxy": "mine", **dict.fromkeys(names, address)}
    assert _pod(text)["enableServiceLinks"] is True
    assert _environment(text, "pod.yaml") == {"http_proxy": "mine"}


def expanded(value: str, variables: Mapping[str, str]) -> str:
    """What a kubelet makes of a value: `$$` is a dollar sign, `$(NAME)` a variable, other dollars stay.

    As the API reference says of EnvVar.value: https://kubernetes.io/docs/reference/kubernetes-api/.
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


def _mounts(text: str, **facts: Any) -> list[tuple[str, str, str, bool]]:
    """Path, volume, place in the volume, and whether it is read-only."""
    mounts = _container(text, **facts)["volumeMounts"]
    return [
        (each["mountPath"], each["name"], each.get("subPath", ""), each["readOnly"]) for each in mounts[1:]
    ]


def test_what_is_on_the_volume() -> None:
    text = (
        "extends: []\nfilesystem:\n  write: [$PROJECT, /srv]\n  readonly: [$PROJECT/LICENSE]\n"
        "  deny: [$PROJECT/closed, $PROJECT/secret.key]\n"
    )
    assert _mounts(text) == [
        (PROJECT, "project", "", False),
        (f"{PROJECT}/LICENSE", "project", "LICENSE", True),
        (f"{PROJECT}/closed", "nothing", "", True),
        (f"{PROJECT}/secret.key", "empty-file", "empty", True),
    ]
    documents = _documents(_policy(text))
    assert documents["configmap.yaml"]["data"] == {"empty": ""}
    assert documents["configmap.yaml"]["immutable"] is True
    volumes = _pod(text)["volumes"][1:]
    assert volumes == [
        {"name": "project", "persistentVolumeClaim": {"claimName": "project"}},
        {"name": "nothing", "emptyDir": {}},
        {"name": "empty-file", "configMap": {"name": "empty"}},
    ]
    assert _container(text)["workingDir"] == PROJECT


def test_a_volume_that_is_only_read() -> None:
    text = "extends: []\nfilesystem: {read: [$PROJECT]}\n"
    assert _mounts(text) == [(PROJECT, "project", "", True)]
    claim = {"claimName": "project", "readOnly": True}
    assert _pod(text)["volumes"][1:] == [{"name": "project", "persistentVolumeClaim": claim}]


def test_part_of_a_project() -> None:
    text = "extends: []\nfilesystem: {write: [$PROJECT/src]}\n"
    assert _mounts(text) == [(f"{PROJECT}/src", "project", "src", False)]
    assert "workingDir" not in _container(text)


def test_what_is_not_there_yet_is_kept_from_being_made() -> None:
    """At the first name that is missing, with what is above it pinned: neither can be moved away."""
    text = "extends: []\nfilesystem: {write: [$PROJECT], deny: [$PROJECT/src/new/er]}\n"
    assert _mounts(text) == [
        (PROJECT, "project", "", False),
        (f"{PROJECT}/src", "project", "src", False),
        (f"{PROJECT}/src/new", "nothing", "", True),
    ]


GIT = {f"{PROJECT}/.git": Entry("directory"), f"{PROJECT}/.git/config": Entry("file")}


@pytest.mark.parametrize("more", [{}, {f"{PROJECT}/.git/hooks": Entry("directory")}], ids=["plain", "hooks"])
def test_a_repository_is_read_only(more: Mapping[str, Entry]) -> None:
    """Nobody would take away again what covers `commondir`."""
    entries = {**dict.fromkeys(DIRECTORIES, Entry("directory")), **GIT, **more}
    text = "filesystem: {write: [$PROJECT]}\n"
    found = _mounts(text, entries=entries, git_directories=(f"{PROJECT}/.git",))
    assert found == [(PROJECT, "project", "", False), (f"{PROJECT}/.git", "project", ".git", True)]


def test_a_repository_without_protection() -> None:
    entries = {**dict.fromkeys(DIRECTORIES, Entry("directory")), **GIT}
    names = [f"{{path: $PROJECT/.git/{name}, reason: mine}}" for name in ("commondir", "config", "hooks")]
    text = f"filesystem: {{write: [$PROJECT], unprotect: [{', '.join(names)}]}}\n"
    found = _mounts(text, entries=entries, git_directories=(f"{PROJECT}/.git",))
    assert found == [(PROJECT, "project", "", False)]


def test_sockets_of_the_host_are_not_looked_for() -> None:
    sockets = (f"{PROJECT}/mine", f"{PROJECT}/other")
    entries = {**dict.fromkeys(DIRECTORIES, Entry("directory")), **dict.fromkeys(sockets, Entry("socket"))}
    text = f"{WRITES}network: {{unix_sockets: [$PROJECT/mine]}}\n"
    assert _mounts(text, entries=entries, sockets=sockets) == [(PROJECT, "project", "", False)]


def test_paths_that_cannot_be_mounted_on() -> None:
    with pytest.raises(RenderError) as refused:
        render_kubernetes(case_policy("hostile-names"))
    assert str(refused.value) == (
        "project sandbox.yaml:18:7: '/home/ada/it\\'s a \"project\" $(x)/a,b:c=d' can't be mounted on: "
        "Kubernetes takes no ':' in a mountPath"
    )


@pytest.mark.parametrize(
    ("image", "reference", "pull"),
    [
        ("debian", "sandwright/debian:latest", "Never"),
        ("registry.example.org/a/b:1", "registry.example.org/a/b:1", "Always"),
        ("python:3.12", "python:3.12", "Always"),
        (f"a/b@sha256:{'0' * 64}", f"a/b@sha256:{'0' * 64}", "IfNotPresent"),
    ],
)
def test_images(image: str, reference: str, pull: str) -> None:
    container = _container(f"extends: []\nimage: {image}\n")
    assert (container["image"], container["imagePullPolicy"]) == (reference, pull)


@pytest.mark.parametrize(
    "methods", ["method: gvisor", "prefer: [kubernetes, gvisor]", "prefer: [gvisor, kubernetes]"]
)
def test_gvisor_where_the_policy_names_it(methods: str) -> None:
    policy = Policy.from_text(f"extends: []\n{methods}\n").resolve(_facts())
    documents = _documents(policy)
    pod = documents["job.yaml"]["spec"]["template"]["spec"]
    assert pod["runtimeClassName"] == documents["runtimeclass.yaml"]["metadata"]["name"] == "gvisor"
    assert "hostUsers" not in pod
    seccomp = next(each for each in render_kubernetes(policy) if each.name == "seccomp.json")
    assert "errnoRet" not in seccomp.content.decode()
    assert {name: _socket(seccomp.content, family)[:15] for name, family in FAMILIES.items()} == {
        "unix": "SCMP_ACT_ALLOW", **dict.fromkeys([*FAMILIES][1:], "SCMP_ACT_ERRNO "),
    }  # fmt: skip


def test_no_gvisor_where_it_is_not_named() -> None:
    documents = _documents(_policy("extends: []"))
    assert "runtimeclass.yaml" not in documents
    assert "runtimeClassName" not in documents["job.yaml"]["spec"]["template"]["spec"]


def test_the_user_of_the_image() -> None:
    security = _pod("extends: []\nuser: {mapping: off}\n")["securityContext"]
    assert security["runAsNonRoot"] is True
    assert not {"runAsUser", "runAsGroup"} & set(security)


@pytest.mark.parametrize(
    ("project", "name"),
    [
        ("/home/u/p", "sandbox-p-60ad706f"),
        ("/srv/p", "sandbox-p-c4cbe899"),
        ('/home/u/It\'s "A" $(x)', "sandbox-it-s-a-x-"),
        ("/home/u/Ä-é", "sandbox-"),
        ("/home/u/" + "long-" * 30, "sandbox-long-long-long-long-long-long-"),
    ],
)
def test_names(project: str, name: str) -> None:
    entries = dict.fromkeys(("/", project), Entry("directory"))
    found = _documents(_policy("extends: []", project=project, entries=entries))["job.yaml"]["metadata"]
    assert found["name"].startswith(name)
    assert found["namespace"] == found["name"]
    assert len(found["name"]) <= 63 - len("-xxxxx")
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", found["name"])


ODD = [
    "no", "~", "1:30", "0x1f", "012", "1e3", "", " ", "- a", "a: b", "# x", '"', "\\", "\n", "%", "@", "`",
    "x\n---\nkind: Pod", "$(HOME)", "{{ 7 }}", "&a", "*a", "!!bool", "\x85", "\u2028", "\ufeff", "y", ".inf",
    "2001-01-01", "|", ">", "<<", "=", "null", "\x7f", "\t", "a ", "? a",
]  # fmt: skip
_CHARACTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"], max_codepoint=0xFFFF)
TEXTS = st.text(_CHARACTERS, max_size=12) | st.sampled_from(ODD)
NAMES = TEXTS.filter(lambda name: name not in ("", ".", "..") and not set(name) & set("/*?:\0"))


@settings(max_examples=60, deadline=None)
@given(st.lists(NAMES, max_size=3, unique=True), TEXTS, st.sampled_from(["none", "proxy", "host"]))
def test_no_value_adds_anything(names: list[str], value: str, mode: str) -> None:
    """Every document is what it is without the values, but for the mounts and the variable that are meant."""
    paths = [f"{PROJECT}/n/{name}" for name in names]
    entries = dict.fromkeys((*DIRECTORIES, f"{PROJECT}/n", *paths), Entry("directory"))
    network = {"network": {"mode": mode}}
    plain = {"extends": [], "filesystem": {"write": ["$PROJECT"]}, **network}
    files = {"write": ["$PROJECT"], "readonly": [path.replace("$", "$$") for path in paths]}
    spelled = {"VALUE": value.replace("$", "$$")}
    full = {**plain, "filesystem": files, "environment": {"set": spelled}}
    made = _documents(_json(full, entries))
    base = _documents(_json(plain, entries))
    assert made.keys() == base.keys()
    container = made["job.yaml"]["spec"]["template"]["spec"]["containers"][0]
    bare = base["job.yaml"]["spec"]["template"]["spec"]["containers"][0]
    added = [each for each in container["volumeMounts"] if each not in bare["volumeMounts"]]
    pin = {f"{PROJECT}/n"} if paths else set()
    assert {each["mountPath"] for each in added} == {*paths, *pin}
    assert {each["mountPath"]: each["subPath"] for each in added if each["readOnly"]} == {
        path: path.removeprefix(f"{PROJECT}/") for path in paths
    }
    assert {each["name"]: each["value"] for each in container["env"] if each not in bare["env"]} == {
        "VALUE": value.replace("$", "$$")
    }
    for documents in (made, base):
        for where in ("job.yaml", "pod.yaml"):
            _forget(documents[where], "volumeMounts", "env", "localhostProfile")
            _forget(documents[where], *(["volumes"] if where == "pod.yaml" else []))
    assert made == base


def _json(data: Json, entries: Mapping[str, Entry]) -> ResolvedPolicy:
    return Policy.from_text(json.dumps({"method": "kubernetes", **data})).resolve(_facts(entries=entries))


def _forget(document: Any, *keys: str) -> None:
    if isinstance(document, dict):
        for key in keys:
            document.pop(key, None)
        for value in document.values():
            _forget(value, *keys)
    elif isinstance(document, list):
        for value in document:
            _forget(value, *keys)


@pytest.mark.parametrize(("kind", "readonly"), [("write", False), ("read", True)])
def test_a_project_in_something_that_is_listed(kind: str, *, readonly: bool) -> None:
    text = f"extends: []\nfilesystem: {{{kind}: [$HOME]}}\n"
    assert _mounts(text) == [(PROJECT, "project", "", readonly)]


def test_what_is_missing_in_what_cannot_be_changed() -> None:
    """No place to mount on is made where nothing can be."""
    entries = {**dict.fromkeys(DIRECTORIES, Entry("directory")), **GIT}
    text = "filesystem: {write: [$PROJECT], deny: [$PROJECT/.git/new]}\n"
    found = _mounts(text, entries=entries, git_directories=(f"{PROJECT}/.git",))
    assert found == [(PROJECT, "project", "", False), (f"{PROJECT}/.git", "project", ".git", True)]


def test_a_repository_below_the_project() -> None:
    """What leads to it can't be moved away with it."""
    inner = {f"{PROJECT}/src/lib": Entry("directory"), f"{PROJECT}/src/lib/.git": Entry("directory")}
    entries = {**dict.fromkeys(DIRECTORIES, Entry("directory")), **inner}
    text = "filesystem: {write: [$PROJECT]}\n"
    found = _mounts(text, entries=entries, git_directories=(f"{PROJECT}/src/lib/.git",))
    assert found == [
        (PROJECT, "project", "", False),
        (f"{PROJECT}/src", "project", "src", False),
        (f"{PROJECT}/src/lib", "project", "src/lib", False),
        (f"{PROJECT}/src/lib/.git", "project", "src/lib/.git", True),
    ]


EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("example", ["cluster", "everywhere"])
def test_examples_are_rendered(example: str) -> None:
    policy = Policy.load(EXAMPLES / example / "sandbox.yaml").resolve(_facts())
    rendered = render(policy, "kubernetes")
    assert violations(yaml.safe_load(rendered.artifact("job.yaml").content)["spec"]["template"]["spec"]) == []
    assert rendered.artifact("proxy-deployment.yaml")
