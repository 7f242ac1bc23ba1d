"""Reads an administrator's manifests back: the Pods of agent-sandbox, and the rules around all Pods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sandwright.documents.document import Document
from sandwright.documents.document import Path as FieldPath
from sandwright.documents.yaml import parse_yaml
from sandwright.errors import ArtifactsTooWide
from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Calls
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered
from sandwright_kubernetes.explain import ReadCluster, proxy_of, read_pod, value_at, way_out

_POD: FieldPath = ("spec", "podTemplate", "spec")
_LEVEL = "pod-security.kubernetes.io/enforce"
_BESIDE = frozenset(("kustomization.yaml", "sandbox.yaml", "sandboxtemplate.yaml"))


def read_sandbox(rendered: Rendered, _policy: ResolvedPolicy) -> ReadCluster:
    """The container of the Sandbox. Raise ArtifactsTooWide if the base lacks the rules around Pods."""
    lacking = list(_lacking(rendered))
    if lacking:
        raise ArtifactsTooWide(f"{rendered.method}: the manifests to install are not complete:", *lacking)
    document, rules = (
        _parse_manifest(rendered, "sandbox.yaml"),
        _parse_manifest(rendered, "networkpolicy-sandbox.yaml"),
    )
    sandbox = read_pod(document, _POD, way_out(rules, ("spec",)), _filter(rendered, document))
    return replace(sandbox, proxy=proxy_of(rendered, "configmap-proxy.yaml"))


def read_template(rendered: Rendered, _policy: ResolvedPolicy) -> tuple[ReadCluster, ...]:
    """The container of a Sandbox that is made of the template, with the template's own network policy."""
    document = _parse_manifest(rendered, "sandboxtemplate.yaml")
    network = way_out(document, ("spec", "networkPolicy"))
    return (read_pod(document, _POD, network, _filter(rendered, document)),)


def _parse_manifest(rendered: Rendered, name: str) -> Document:
    return parse_yaml(rendered.artifact(name).content, file=name)


def _filter(rendered: Rendered, document: Document) -> Calls:
    """The filter that the base puts on each node under the name that the Pod has."""
    chosen: Any = value_at(document, (*_POD, "securityContext", "seccompProfile"))
    profiles: Any = value_at(_parse_manifest(rendered, "profile-configmap.yaml"), ("data",))
    name = chosen.get("localhostProfile", "")
    if chosen["type"] != "Localhost" or name not in profiles:
        return calls.unfiltered(document.file)
    return calls.of_json(profiles[name].encode(), "profile-configmap.yaml")


def _lacking(rendered: Rendered) -> Iterator[str]:
    """The required parts that the base lacks: each also restricts Pods that are not ours."""
    applied: Any = value_at(_parse_manifest(rendered, "kustomization.yaml"), ("resources",))
    manifests = {each.name: _parse_manifest(rendered, each.name) for each in rendered.artifacts}
    for name, document in manifests.items():
        data: Any = document.data
        if name not in (*applied, *_BESIDE):
            yield f"kustomization.yaml does not list {name}"
        if name.startswith("namespace") and data["metadata"]["labels"].get(_LEVEL) != "restricted":
            yield f"{name}: {_LEVEL} is not restricted"
        if data["kind"].endswith("PolicyBinding") and data["spec"]["validationActions"] != ["Deny"]:
            yield f"{name}: validationActions is not Deny"
        if data["kind"] == "ValidatingAdmissionPolicy" and data["spec"]["failurePolicy"] != "Fail":
            yield f"{name}: failurePolicy is not Fail"
    kinds = ("pods", "exec") if not any(each.startswith("deployment") for each in applied) else _PROXIED
    for part in kinds:
        for kind in ("policy", "binding"):
            if f"admission-{part}-{kind}.yaml" not in applied:
                yield f"admission-{part}-{kind}.yaml is missing"


_PROXIED = ("pods", "exec", "proxy")
