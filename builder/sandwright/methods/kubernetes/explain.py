"""Reads the manifests of a cluster back: the Job's Pod, its network policy, and the filter for the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sandwright.documents.document import Document, field_name
from sandwright.documents.document import Path as FieldPath
from sandwright.documents.yaml import parse_yaml
from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Enclosure, Passing
from sandwright.evaluate.explain.verdict import ArtifactPosition, Asked
from sandwright.methods.kubernetes.support import DECLARATION
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount
from sandwright.render.rendered import Rendered

FILE = "job.yaml"
_POD: FieldPath = ("spec", "template", "spec")


class ReadCluster(Enclosure):
    """The container of a Job, in which of the host there is only the project."""

    def why_stricter(self, policy: ResolvedPolicy, asked: Asked) -> str | None:
        """Paths of the host outside the project are not there."""
        project = policy.canonical(policy.facts.project)
        if asked.path and not is_inside(asked.path, project):
            return DECLARATION.of("filesystem.read").reason
        return super().why_stricter(policy, asked)


def read_cluster(rendered: Rendered, _policy: ResolvedPolicy) -> ReadCluster:
    """The container that the Job makes, with the network that the policy leaves its Pod."""
    document = parse_yaml(rendered.artifact(FILE).content, file=FILE)
    pod: Any = _at(document, _POD)
    container = pod["containers"][0]
    rules = parse_yaml(rendered.artifact("networkpolicy.yaml").content, file="networkpolicy.yaml")
    network, proxied = _network(rules)
    base = (*_POD, "containers", 0)
    return ReadCluster(
        "image",
        tuple(_mounts(document, pod, container)),
        network=None if pod["hostNetwork"] else network,
        environment={
            each["name"]: _place(document, (*base, "env", index), f"{each['name']}={each.get('value', '')}")
            for index, each in enumerate(container.get("env", ()))
        },
        passing=Passing(),
        calls=calls.of_json(rendered.artifact("seccomp.json").content, "seccomp.json"),
        proxied=proxied,
        sockets=False,
    )


def _network(rules: Document) -> tuple[ArtifactPosition | None, bool]:
    """Where all ways out are closed, none where one leads anywhere, and whether one leads to the proxy."""
    spec: Any = _at(rules, ("spec",))
    egress = spec.get("egress", [])
    place = _place(rules, ("spec", "egress"), "egress")
    if "Egress" not in spec["policyTypes"]:
        return None, True
    proxied = False
    for rule in egress:
        labels = [
            to.get("podSelector", {}).get("matchLabels", {}).get("app.kubernetes.io/component")
            for to in rule.get("to", ())
        ]
        if labels != ["proxy"]:
            return None, True
        proxied = True
    return place, proxied


def _mounts(document: Document, pod: Any, container: Any) -> Iterator[tuple[Mount, ArtifactPosition]]:  # noqa: ANN401 - YAML
    """What a runtime brings, then the volumes, parents first."""
    brought = ArtifactPosition(FILE, "brought by the runtime")
    yield Mount("/dev", "dev", writable=True), brought
    yield Mount("/proc", "proc", writable=True), brought
    yield Mount("/sys", "proc"), brought
    volumes = {each["name"]: each for each in pod["volumes"]}
    base = (*_POD, "containers", 0, "volumeMounts")
    listed = sorted(enumerate(container["volumeMounts"]), key=lambda each: each[1]["mountPath"].count("/"))
    for index, each in listed:
        target, writable = each["mountPath"], not each.get("readOnly", False)
        place = _place(document, (*base, index), f"{each['name']} on {target}, {'rw' if writable else 'ro'}")
        if "emptyDir" in volumes[each["name"]]:
            yield Mount(target, "tmpfs", writable), place
        elif "configMap" in volumes[each["name"]]:
            yield Mount(target, "mask", entry="file"), place  # a file without content
        else:
            yield Mount(target, "bind", writable, source=target), place


def _at(document: Document, path: FieldPath) -> Any:  # noqa: ANN401 - YAML
    value: Any = document.data
    for step in path:
        value = value[step]
    return value


def _place(document: Document, path: FieldPath, text: str) -> ArtifactPosition:
    line, column = document.position(path)
    short = field_name(path[3:] if path[:3] == _POD else path)
    return ArtifactPosition(document.file, f"{short}: {text}", line, column)
