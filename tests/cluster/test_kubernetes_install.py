"""The objects that an administrator installs for a sandbox in a cluster. Tests with a real API server are in
`cluster/`.

Tests of builder/sandwright_kubernetes/cel.py: the CEL rules of the admission policy, field by field.
Tests of builder/sandwright_kubernetes/guard.py: the Pods that the admission policy admits.
Tests of builder/sandwright_kubernetes/install.py.
Tests of builder/sandwright_kubernetes/install_explain.py.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft202012Validator

from cluster.clusters import PROJECT, cluster_policy, manifests
from cluster.podsecurity import violations
from sandwright import process
from sandwright.policy.resolved import ResolvedPolicy
from sandwright_kubernetes.cel import pod_rules
from sandwright_kubernetes.install import render_install
from sandwright_kubernetes.render import render_kubernetes

Json = dict[str, Any]
CRDS = "SANDWRIGHT_AGENT_SANDBOX_CRDS"
"""The directory `k8s/crds` of a checkout of kubernetes-sigs/agent-sandbox."""
POLICIES = {
    "plain": "extends: []\n",
    "limits": "extends: []\nresources: {memory: 64MiB, cpus: 0.5, time: 60s}\n",
    "project": "extends: []\nfilesystem:\n  write: [$PROJECT]\n"
    f"  deny: [{PROJECT}/closed, {PROJECT}/secret.key]\n",
    "proxy": "extends: []\nnetwork: {mode: proxy, allow: [example.org]}\nresources: {memory: 64MiB}\n",
    "gvisor": "extends: []\nmethods: [kubernetes, gvisor]\n",
}


def _documents(text: str) -> dict[str, Json]:
    return _of(cluster_policy(text) if "methods" not in text else _gvisor(text))


def _gvisor(text: str) -> ResolvedPolicy:
    from cluster.clusters import cluster_facts  # noqa: PLC0415
    from sandwright.api import Policy  # noqa: PLC0415

    return Policy.from_text(f"schema: 1\n{text}").resolve(cluster_facts())


def _of(policy: ResolvedPolicy) -> dict[str, Json]:
    return {each.name: yaml.load(each.content, yaml.CSafeLoader) for each in render_install(policy)}


@pytest.mark.parametrize("case", POLICIES)
def test_schemas_of_kubernetes(case: str) -> None:
    documents = _documents(POLICIES[case])
    base = documents.pop("kustomization.yaml")
    own = {"sandbox.yaml", "sandboxtemplate.yaml"}
    assert base["resources"] == [name for name in documents if name not in own]
    for name in base["resources"]:
        for version in ("1.33", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(documents[name], version, strict=True)


@pytest.mark.parametrize("case", POLICIES)
def test_each_rule_names_its_field(case: str) -> None:
    policy = _documents(POLICIES[case])["admission-pods-policy.yaml"]
    spec = policy["spec"]
    assert spec["failurePolicy"] == "Fail"
    assert spec["matchConstraints"]["resourceRules"][0]["resources"] == [
        *("pods", "pods/ephemeralcontainers", "pods/resize"),
    ]
    fields = [each["message"].partition(": ")[0] for each in spec["validations"]]
    assert len(fields) == len(set(fields)), "no field has two rules"
    assert len(fields) > 60
    for each in spec["validations"]:
        last = re.split(r"[.\[]", each["message"].partition(": ")[0].replace("]", ""))[-1]
        assert last in each["expression"] or last in ("name", "component"), each
        assert each["expression"] not in ("true", "")


@pytest.mark.parametrize("case", POLICIES)
def test_it_holds_for_both_namespaces_of_the_sandbox(case: str) -> None:
    documents = _documents(POLICIES[case])
    spaces = [documents[f"namespace{suffix}.yaml"]["metadata"]["name"] for suffix in ("", "-fleet")]
    bindings = [each for each in documents.values() if each["kind"].endswith("PolicyBinding")]
    assert len(bindings) == (3 if case == "proxy" else 2)
    for each in bindings:
        assert each["spec"]["validationActions"] == ["Deny"]
        (chosen,) = each["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert (chosen["key"], chosen["values"]) == ("kubernetes.io/metadata.name", spaces)


def test_the_pods_policy_leaves_out_nobody_but_the_proxy() -> None:
    """Without a proxy, the policy exempts no Pod, whatever its labels."""
    plain, proxied = (_documents(POLICIES[case]) for case in ("plain", "proxy"))
    assert "matchConditions" not in plain["admission-pods-policy.yaml"]["spec"]
    conditions = {
        part: proxied[f"admission-{part}-policy.yaml"]["spec"]["matchConditions"][0]["expression"]
        for part in ("pods", "proxy")
    }
    assert conditions["pods"].replace("!=", "==") == conditions["proxy"]


def test_a_project_travels_out_of_no_repository_unless_an_operator_names_one() -> None:
    """The name is in a namespace that no run's rights reach; without it no Pod is admitted."""
    documents = _documents(POLICIES["project"])
    told = documents["projects.yaml"]
    assert told["data"] == {"repository": ""}
    spec = documents["admission-pods-policy.yaml"]["spec"]
    assert spec["paramKind"] == {"apiVersion": "v1", "kind": "ConfigMap"}
    assert documents["admission-pods-binding.yaml"]["spec"]["paramRef"] == {
        "name": told["metadata"]["name"],
        "namespace": "sandwright-profiles",
        "parameterNotFoundAction": "Deny",
    }
    images = [each["expression"] for each in spec["validations"] if "repository" in each["expression"]]
    assert len(images) == 2
    assert all("params.data.repository != '' && " in each for each in images)
    (entered,) = documents["admission-exec-policy.yaml"]["spec"]["validations"]
    assert "request.subResource == 'exec' && " in entered["expression"]
    for case in ("plain", "proxy"):
        others = _documents(POLICIES[case])
        assert "projects.yaml" not in others
        assert "params" not in json.dumps(others)
        assert others["admission-exec-policy.yaml"]["spec"]["validations"][0]["expression"] == "false"


HOSTILE = ("'", '"', "\\", "') || true || ('", "\n", "\u2028", "\x07", "é")


@pytest.mark.parametrize("value", HOSTILE)
def test_values_stay_values(value: str) -> None:
    """A text of a policy becomes one literal of CEL."""
    policy = cluster_policy(f"extends: []\nenvironment: {{set: {{A: {json.dumps(value)}}}}}\n")
    pod = manifests(policy)["job.yaml"]["spec"]["template"]["spec"]
    (rule,) = [each for each in pod_rules(pod, {}) if each.field.endswith(".env")]
    literal = json.dumps(value, ensure_ascii=False)
    assert f"== {literal})" in rule.expression
    rest = re.sub(r'"(\\.|[^"\\])*"', "", rule.expression)
    assert value in ("é", "\\") or value not in rest.replace("''", "")


def test_the_filter_is_the_one_that_the_pod_names() -> None:
    policy = cluster_policy("extends: []\n")
    own = {each.name: each.content for each in render_kubernetes(policy)}
    documents = _of(policy)
    pod = manifests(policy)["job.yaml"]["spec"]["template"]["spec"]
    (entry,) = documents["profile-configmap.yaml"]["data"].items()
    assert entry == (
        pod["securityContext"]["seccompProfile"]["localhostProfile"],
        own["seccomp.json"].decode(),
    )
    daemon = documents["profile-daemonset.yaml"]["spec"]["template"]["spec"]
    assert violations(daemon) == [
        *(
            "volumes[1]",
            "containers[0].securityContext.runAsNonRoot",
            "containers[0].securityContext.runAsUser",
        ),
    ]


@pytest.mark.parametrize("case", POLICIES)
def test_the_limits_admit_what_is_rendered(case: str) -> None:
    documents = _documents(POLICIES[case])
    (limit,) = documents["limitrange.yaml"]["spec"]["limits"]
    assert limit["max"]["ephemeral-storage"] == "5Gi"
    expected = {"limits": str(64 << 20), "proxy": str(256 << 20)}
    assert limit["max"].get("memory") == expected.get(case)


@pytest.mark.parametrize("case", POLICIES)
def test_agent_sandbox_gets_the_same_pod(case: str) -> None:
    documents = _documents(POLICIES[case])
    sandbox, template = documents["sandbox.yaml"]["spec"], documents["sandboxtemplate.yaml"]["spec"]
    assert sandbox["podTemplate"] == template["podTemplate"]
    spec = template["podTemplate"]["spec"]
    assert violations(spec) == []
    assert ("runtimeClassName" in spec) == (case == "gvisor")
    assert (template["envVarsInjectionPolicy"], template["networkPolicy"]["ingress"]) == ("Disallowed", [])
    assert bool(template["networkPolicy"]["egress"]) == (case == "proxy")


@pytest.mark.parametrize("file", ["agents.x-k8s.io_sandboxes", "extensions.agents.x-k8s.io_sandboxtemplates"])
def test_schemas_of_agent_sandbox(file: str) -> None:
    folder = os.environ.get(CRDS)
    if not folder:
        pytest.skip(f"{CRDS} names no directory with the CustomResourceDefinitions of agent-sandbox")
    definition = yaml.load((Path(folder) / f"{file}.yaml").read_bytes(), yaml.CSafeLoader)
    (schema,) = [
        each["schema"]["openAPIV3Schema"] for each in definition["spec"]["versions"] if each["storage"]
    ]
    for text in POLICIES.values():
        kinds = {each["kind"]: each for each in _documents(text).values()}
        document = kinds[definition["spec"]["names"]["kind"]]
        assert [str(each.message) for each in Draft202012Validator(schema).iter_errors(document)] == []
        assert list(_unknown(document["spec"], schema["properties"]["spec"])) == []


def _unknown(value: Any, schema: Json, place: str = "spec") -> Iterator[str]:
    """Fields that an API server would drop."""
    if isinstance(value, dict) and "properties" in schema:
        for name, each in value.items():
            if name in schema["properties"]:
                yield from _unknown(each, schema["properties"][name], f"{place}.{name}")
            else:
                yield f"{place}.{name}"
    elif isinstance(value, list):
        for each in value:
            yield from _unknown(each, schema.get("items", {}), f"{place}[]")


@pytest.mark.needs("kubectl")
def test_kustomize_takes_the_base(tmp_path: Path) -> None:
    for each in render_install(cluster_policy(POLICIES["proxy"])):
        (tmp_path / each.name).write_bytes(each.content)
    built = process.run("kubectl", "kustomize", tmp_path, timeout=120)
    kinds = [each["kind"] for each in yaml.load_all(built.text, yaml.CSafeLoader)]
    assert kinds.count("ValidatingAdmissionPolicy") == 3
    assert "Job" not in kinds
    assert kinds[0] == "Namespace"
