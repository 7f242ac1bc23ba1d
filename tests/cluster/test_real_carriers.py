"""The objects that `kubernetes-install` renders for an uploaded project, on a real cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.person import Person
from cluster.test_real_cluster import running
from cluster.test_real_guard import OTHER, Json, Namespace, Weaken, install, until_it_refuses, without
from sandwright_kubernetes.sync.job import with_project
from support.thorough import THOROUGH
from support.waiting import until

__all__ = ["running"]
pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time for a cluster"),
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(1200),
    pytest.mark.needs("busybox", "kubectl"),
]
REPOSITORY = "registry.example/projects"
IMAGE = f"{REPOSITORY}@sha256:{'0' * 64}"


def _fill(change: Json) -> Weaken:
    return lambda pod: pod["initContainers"][0].update(change)


def _return(change: Json) -> Weaken:
    return lambda pod: pod["containers"][1].update(change)


TRAVELLING: dict[str, tuple[Weaken, str]] = {
    "image": (_fill({"image": IMAGE.replace("example", "invalid")}), "spec.initContainers[0].image"),
    "image by a tag": (_fill({"image": f"{REPOSITORY}:latest"}), "spec.initContainers[0].image"),
    "image beside": (_fill({"image": f"{REPOSITORY}-x@sha256:0"}), "spec.initContainers[0].image"),
    "command": (_fill({"command": ["/bin/sh"]}), "spec.initContainers[0].command"),
    "arguments": (_fill({"args": ["x"]}), "spec.initContainers[0].args"),
    "a secret": (_fill({"envFrom": [{"secretRef": {"name": "x"}}]}), "spec.initContainers[0].envFrom"),
    "a variable": (_fill({"env": [{"name": "X", "value": "x"}]}), "spec.initContainers[0].env"),
    "root": (
        lambda pod: pod["initContainers"][0]["securityContext"].update({"runAsUser": 0}),
        "spec.initContainers[0].securityContext.runAsUser",
    ),
    "capabilities": (
        lambda pod: pod["initContainers"][0]["securityContext"]["capabilities"].update(
            {"add": ["SYS_ADMIN"]}
        ),
        "spec.initContainers[0].securityContext.capabilities.add",
    ),
    "memory": (
        lambda pod: pod["initContainers"][0]["resources"]["limits"].update({"memory": "1Gi"}),
        "spec.initContainers[0].resources.limits.memory",
    ),
    "mounts": (
        lambda pod: pod["initContainers"][0]["volumeMounts"].append({"name": "tmp", "mountPath": "/x"}),
        "spec.initContainers[0].volumeMounts",
    ),
    "another first": (lambda pod: pod["initContainers"].append(OTHER), "spec.initContainers"),
    "the last image": (_return({"image": "sandwright/debian:latest"}), "spec.containers[1].image"),
    "the last command": (_return({"command": ["/projectcopy", "x"]}), "spec.containers[1].command"),
    "a third": (lambda pod: pod["containers"].append(OTHER), "spec.containers"),
    "nothing first": (without("initContainers"), "spec.volumes"),
    "more of the project": (
        lambda pod: _project(pod)["emptyDir"].update({"sizeLimit": "1Ti"}),
        "spec.volumes",
    ),
    "another project": (
        lambda pod: (_project(pod).pop("emptyDir"), _project(pod).update({"hostPath": {"path": "/"}})),
        "spec.volumes",
    ),
}
"""The same of a Pod whose project travels."""


def _project(pod: Json) -> Json:
    return next(each for each in pod["volumes"] if each["name"] == "project")


@pytest.fixture(scope="module")
def travelling(running: Any, tmp_path_factory: pytest.TempPathFactory) -> Namespace:
    """The same for a project that may be transferred through one repository."""
    home = tmp_path_factory.mktemp("travelling")
    person = Person(running, home, home / "q", running.kubeconfig)
    person.policy("extends: []\nfilesystem: {write: [$PROJECT]}\n", profile=False)
    install(person)
    namespace = Namespace(person)
    namespace.job = with_project(namespace.job, IMAGE, returns=True)
    level = "pod-security.kubernetes.io/enforce=privileged"
    running.kubectl("create", "serviceaccount", "default", "--namespace", namespace.name, check=False)
    running.kubectl("label", "namespace", namespace.name, "--overwrite", level)
    running.kubectl("delete", "limitrange", "sandbox", "--namespace", namespace.name)
    until_it_refuses(namespace)
    return namespace


def let_travel(person: Person, repository: str) -> None:
    """Allow the transfer, as an operator does."""
    words = ("configmap", f"{person.name()}-projects", "--namespace", "sandwright-profiles")
    patch = json.dumps({"data": {"repository": repository}})
    person.cluster.kubectl("patch", *words, "--type=merge", "-p", patch)


def test_a_project_travels_where_an_operator_says(travelling: Namespace) -> None:
    """By default no project is admitted; one on a claim, or a read-only one, is admitted, too."""
    first = travelling.create(travelling.pod())
    assert "must come from the repository that the ConfigMap of projects names" in first.stderr
    let_travel(travelling.person, REPOSITORY)
    until(lambda: travelling.create(travelling.pod()).status == 0, "it is not admitted")
    reads = travelling.pod()
    del reads["spec"]["containers"][1]
    assert travelling.create(reads).status == 0
    own = Namespace(travelling.person)
    assert own.create(own.pod()).status == 0


@pytest.mark.parametrize("name", TRAVELLING)
def test_a_weakened_pod_whose_project_travels_is_refused(travelling: Namespace, name: str) -> None:
    let_travel(travelling.person, REPOSITORY)
    until(lambda: travelling.create(travelling.pod()).status == 0, "it is not admitted")
    weaken, field = TRAVELLING[name]
    pod = travelling.pod()
    weaken(pod["spec"])
    made = travelling.create(pod)
    assert made.status != 0, f"{name} is admitted"
    assert f"{field}:" in made.stderr, made.stderr
