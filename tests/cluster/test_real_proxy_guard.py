"""The objects that `kubernetes-install` renders for a proxy, on a real cluster: its admitted Pods."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from cluster.person import Person
from cluster.test_real_cluster import running
from cluster.test_real_guard import OTHER, Json, install
from sandwright import process
from support.thorough import THOROUGH
from support.waiting import until

__all__ = ["running"]
pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time for a cluster"),
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(1200),
    pytest.mark.needs("busybox", "kubectl"),
]
POLICY = "extends: []\nnetwork: {mode: proxy, allow: [example.org]}\n"
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
SHELL = {"exec": {"command": ["/bin/sh", "-c", "true"]}}


def _container(change: Json) -> Callable[[Json], object]:
    return lambda pod: pod["spec"]["containers"][0].update(change)


def _pod(change: Json) -> Callable[[Json], object]:
    return lambda pod: pod["spec"].update(change)


def _volume(pod: Json) -> None:
    pod["spec"]["volumes"].append({"name": "more", "configMap": {"name": "other"}})


WEAKENED: dict[str, tuple[Callable[[Json], object], str]] = {
    "hook": (_container({"lifecycle": {"postStart": SHELL}}), "spec.containers[0].lifecycle"),
    "probe": (_container({"livenessProbe": SHELL}), "spec.containers[0].livenessProbe"),
    "ready": (_container({"readinessProbe": SHELL}), "spec.containers[0].readinessProbe"),
    "ready elsewhere": (
        _container({"readinessProbe": {"tcpSocket": {"port": 1, "host": "10.0.0.1"}}}),
        "spec.containers[0].readinessProbe",
    ),
    "hostPort": (
        _container({"ports": [{"containerPort": 3128, "hostPort": 3128}]}),
        "spec.containers[0].ports",
    ),
    "variable": (
        _container({"env": [{"name": "LD_PRELOAD", "value": "/etc/sandwright/x"}]}),
        "spec.containers[0].env",
    ),
    "variables": (
        _container({"envFrom": [{"configMapRef": {"name": "x"}}]}),
        "spec.containers[0].envFrom",
    ),
    "other mount": (
        _container({"volumeMounts": [{"name": "configuration", "mountPath": "/etc/squid"}]}),
        "spec.containers[0].volumeMounts",
    ),
    "image": (_container({"image": "somebody/else:latest"}), "spec.containers[0].image"),
    "command": (_container({"command": ["/bin/sh"]}), "spec.containers[0].command"),
    "arguments": (_container({"args": ["-f", "/x"]}), "spec.containers[0].command"),
    "second container": (lambda pod: pod["spec"]["containers"].append(OTHER), "spec.containers"),
    "first container": (_pod({"initContainers": [OTHER]}), "spec.initContainers"),
    "names": (_pod({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.1"]}}), "spec.dnsPolicy"),
    "hosts": (_pod({"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["example.org"]}]}), "spec.hostAliases"),
    "network": (_pod({"hostNetwork": True}), "spec.hostNetwork"),
    "token": (_pod({"automountServiceAccountToken": True}), "spec.automountServiceAccountToken"),
    "volume": (_volume, "spec.volumes"),
    "annotation": (
        lambda pod: pod["metadata"].update(annotations={"k8s.v1.cni.cncf.io/networks": "x"}),
        "metadata.annotations",
    ),
    "label": (
        lambda pod: pod["metadata"]["labels"].update({"app.kubernetes.io/name": "x"}),
        "metadata.labels[app.kubernetes.io/name]",
    ),
}
"""By name: a change of the proxy's Pod, and the field in the refusal's message."""


class Proxy:
    """A sandbox's namespace with a proxy, in which Pod Security admits everything."""

    def __init__(self, person: Person) -> None:
        self.person = person
        folder = person.project / ".sandbox/kubernetes-install"
        document: Json = yaml.load((folder / "deployment-proxy.yaml").read_bytes(), yaml.CSafeLoader)
        self.template = document["spec"]["template"]

    def pod(self) -> Json:
        made = copy.deepcopy(self.template)
        made["metadata"].update(name="tried", namespace=self.person.name())
        return {"apiVersion": "v1", "kind": "Pod", **made}

    def create(self, document: Json, who: str = CONTROLLER) -> process.Result:
        words = ("create", "-f", "-", "--dry-run=server", f"--as={who}")
        return self.person.cluster.kubectl(*words, stdin=json.dumps(document).encode(), check=False)


@pytest.fixture(scope="module")
def proxied(running: Any, tmp_path_factory: pytest.TempPathFactory) -> Proxy:
    home = tmp_path_factory.mktemp("proxied")
    person = Person(running, home, home / "r", running.kubeconfig)
    person.policy(POLICY, profile=False)
    install(person)
    words = ("label", "namespace", person.name(), "--overwrite")
    running.kubectl(*words, "pod-security.kubernetes.io/enforce=privileged")
    found = Proxy(person)
    weak = found.pod()
    weak["spec"]["hostNetwork"] = True
    until(lambda: "spec.hostNetwork" in found.create(weak).stderr, "the policy does not hold")
    return found


def test_the_rendered_proxy_is_admitted(proxied: Proxy) -> None:
    """It is admitted alone and from its Deployment's controller; from any other user it is refused."""
    made = proxied.create(proxied.pod())
    assert made.status == 0, made.stderr
    words = ("get", "pods", "--namespace", proxied.person.name(), "-o", "name")
    until(lambda: "pod/proxy-" in proxied.person.cluster.kubectl(*words).text, "no proxy was made")
    other = proxied.create(proxied.pod(), "system:serviceaccount:kube-system:job-controller")
    assert "must be the controller of Deployments" in other.stderr


@pytest.mark.parametrize("name", WEAKENED)
def test_a_weakened_proxy_is_refused(proxied: Proxy, name: str) -> None:
    weaken, field = WEAKENED[name]
    pod = proxied.pod()
    weaken(pod)
    made = proxied.create(pod)
    assert made.status != 0, f"{name} is admitted"
    assert f"{field}:" in made.stderr, made.stderr
