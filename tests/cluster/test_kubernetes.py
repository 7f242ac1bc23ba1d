"""Manifests of a cluster: golden, valid for the real schemas, restricted, and true to the policy.

Tests of builder/sandwright_kubernetes/naming.py.
Tests of builder/sandwright_kubernetes/pod.py.
Tests of builder/sandwright_kubernetes/render.py.
"""

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

from cluster.clusters import (
    DIRECTORIES,
    FAMILIES,
    PROJECT,
    WRITES,
    Json,
    cluster_facts,
    cluster_policy,
    container_of,
    manifests,
    pod_of,
    socket_answer,
)
from cluster.podsecurity import violations
from sandwright.api import Policy
from sandwright.methods.registry import render
from sandwright.policy.facts import HostEntry
from sandwright.policy.resolved import ResolvedPolicy
from sandwright_kubernetes.render import render_kubernetes
from support.goldens import CASES, case_policy
from support.thorough import examples

RENDERED = [case for case in CASES if case != "hostile-names"]
VERSIONS = ("1.29", "1.33", kubernetes_validate.latest_version())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", RENDERED)
def test_schemas_of_kubernetes(case: str, version: str) -> None:
    """The API server's own OpenAPI schemas, with unknown keys refused."""
    documents = manifests(case_policy(case))
    kinds = [document["kind"] for name, document in documents.items() if name != "kustomization.yaml"]
    assert {"Namespace", "NetworkPolicy", "Job", "Pod"} <= set(kinds)
    for name, document in documents.items():
        if name != "kustomization.yaml":
            kubernetes_validate.validate(document, version, strict=True)


def test_the_schemas_refuse() -> None:
    """The control of the test above."""
    job = manifests(cluster_policy(WRITES))["job.yaml"]
    job["spec"]["template"]["spec"]["hostnetwork"] = False
    with pytest.raises(kubernetes_validate.ValidationError, match="hostnetwork"):
        kubernetes_validate.validate(job, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("case", RENDERED)
def test_restricted(case: str) -> None:
    documents = manifests(case_policy(case))
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
    spec: Any = pod_of(WRITES)
    assert violations(spec) == []
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
    at = spec
    for part in parents:
        at = at[part]
    at[last] = value
    assert violations(spec) == [broken]


def test_what_every_sandbox_has() -> None:
    pod, container = pod_of("extends: []"), container_of("extends: []")
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
    job = manifests(cluster_policy("extends: []"))["job.yaml"]["spec"]
    assert (job["backoffLimit"], job["ttlSecondsAfterFinished"]) == (0, 3600)
    assert "activeDeadlineSeconds" not in job


def test_limits() -> None:
    text = "extends: []\nresources: {memory: 1536MiB, cpus: 1.5, time: 90s}\n"
    granted = {"memory": "1536Mi", "cpu": "1500m", "ephemeral-storage": "5Gi"}
    asked = {"memory": "1536Mi", "cpu": "1500m", "ephemeral-storage": "256Mi"}
    assert container_of(text)["resources"] == {"requests": asked, "limits": granted}
    assert pod_of(text)["activeDeadlineSeconds"] == 90
    assert manifests(cluster_policy(text))["job.yaml"]["spec"]["activeDeadlineSeconds"] == 90


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
    container = container_of(f"extends: []\nresources: {{memory: {memory}}}\n")
    assert container["resources"]["limits"]["memory"] == quantity


@pytest.mark.parametrize(
    ("image", "reference", "pull"),
    [
        ("debian", "sandwright/debian:latest", "Never"),
        ("dev", "sandwright/dev:latest", "Never"),
        ("more", "more", "Always"),
        ("registry.example.org/a/b:1", "registry.example.org/a/b:1", "Always"),
        ("python:3.12", "python:3.12", "Always"),
        (f"a/b@sha256:{'0' * 64}", f"a/b@sha256:{'0' * 64}", "IfNotPresent"),
    ],
)
def test_images(image: str, reference: str, pull: str) -> None:
    container = container_of(f"extends: []\nimage: {image}\n")
    assert (container["image"], container["imagePullPolicy"]) == (reference, pull)


@pytest.mark.parametrize(
    "methods", ["method: gvisor", "methods: [kubernetes, gvisor]", "methods: [gvisor, kubernetes]"]
)
def test_gvisor_where_the_policy_names_it(methods: str) -> None:
    policy = Policy.from_text(f"extends: []\n{methods}\n").resolve(cluster_facts())
    documents = manifests(policy)
    pod = documents["job.yaml"]["spec"]["template"]["spec"]
    assert pod["runtimeClassName"] == documents["runtimeclass.yaml"]["metadata"]["name"] == "gvisor"
    assert "hostUsers" not in pod
    seccomp = next(each for each in render_kubernetes(policy) if each.name == "seccomp.json")
    assert "errnoRet" not in seccomp.content.decode()
    assert {name: socket_answer(seccomp.content, family)[:15] for name, family in FAMILIES.items()} == {
        "unix": "SCMP_ACT_ALLOW", **dict.fromkeys([*FAMILIES][1:], "SCMP_ACT_ERRNO "),
    }  # fmt: skip


def test_no_gvisor_where_it_is_not_named() -> None:
    documents = manifests(cluster_policy("extends: []"))
    assert "runtimeclass.yaml" not in documents
    assert "runtimeClassName" not in documents["job.yaml"]["spec"]["template"]["spec"]


def test_the_user_of_the_image() -> None:
    security = pod_of("extends: []\nuser: {mapping: off}\n")["securityContext"]
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
    entries = dict.fromkeys(("/", project), HostEntry("directory"))
    found = manifests(cluster_policy("extends: []", project=project, entries=entries))["job.yaml"]["metadata"]
    assert found["name"].startswith(name)
    assert found["namespace"] == found["name"]
    assert len(found["name"]) <= 63 - len("-xxxxx")
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", found["name"])


EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("example", ["cluster", "everywhere"])
def test_examples_are_rendered(example: str) -> None:
    policy = Policy.load(EXAMPLES / example / "sandbox.yaml").resolve(cluster_facts())
    rendered = render(policy, "kubernetes")
    assert violations(yaml.safe_load(rendered.artifact("job.yaml").content)["spec"]["template"]["spec"]) == []
    assert rendered.artifact("proxy-deployment.yaml")


ODD = [
    "no", "~", "1:30", "0x1f", "012", "1e3", "", " ", "- a", "a: b", "# x", '"', "\\", "\n", "%", "@", "`",
    "x\n---\nkind: Pod", "$(HOME)", "{{ 7 }}", "&a", "*a", "!!bool", "\x85", "\u2028", "\ufeff", "y", ".inf",
    "2001-01-01", "|", ">", "<<", "=", "null", "\x7f", "\t", "a ", "? a",
]  # fmt: skip
_CHARACTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"], max_codepoint=0xFFFF)
TEXTS = st.text(_CHARACTERS, max_size=12) | st.sampled_from(ODD)
NAMES = TEXTS.filter(lambda name: name not in ("", ".", "..") and not set(name) & set("/*?:\0"))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(NAMES, max_size=3, unique=True), TEXTS, st.sampled_from(["none", "proxy", "host"]))
def test_no_value_adds_anything(names: list[str], value: str, mode: str) -> None:
    """Every document is the same without the values, except for the mounts and the variable for them."""
    paths = [f"{PROJECT}/n/{name}" for name in names]
    entries = dict.fromkeys((*DIRECTORIES, f"{PROJECT}/n", *paths), HostEntry("directory"))
    network = {"network": {"mode": mode}}
    plain = {"extends": [], "filesystem": {"write": ["$PROJECT"]}, **network}
    files = {"write": ["$PROJECT"], "readonly": [path.replace("$", "$$") for path in paths]}
    spelled = {"VALUE": value.replace("$", "$$")}
    full = {**plain, "filesystem": files, "environment": {"set": spelled}}
    made = manifests(_json(full, entries))
    base = manifests(_json(plain, entries))
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


def _json(data: Json, entries: Mapping[str, HostEntry]) -> ResolvedPolicy:
    return Policy.from_text(json.dumps({"method": "kubernetes", **data})).resolve(
        cluster_facts(entries=entries)
    )


def _forget(document: Any, *keys: str) -> None:
    if isinstance(document, dict):
        for key in keys:
            document.pop(key, None)
        for value in document.values():
            _forget(value, *keys)
    elif isinstance(document, list):
        for value in document:
            _forget(value, *keys)
