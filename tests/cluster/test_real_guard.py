"""The objects that `kubernetes-install` renders, on a real cluster: Pods that are admitted, and refusals.

Tests of builder/sandwright_kubernetes/cel.py: a real API server refuses other Pods.
Tests of builder/sandwright_kubernetes/guard.py: a real API server refuses other Pods.
"""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from cluster.person import LIMIT, SANDWRIGHT, Person
from cluster.test_real_cluster import running
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
Json = dict[str, Any]
Weaken = Callable[[Json], object]
POLICY = "extends: []\nresources: {memory: 64MiB, cpus: 0.5, time: 60s}\n"


def _container(change: Json) -> Weaken:
    return lambda pod: pod["containers"][0].update(change)


def _security(change: Json) -> Weaken:
    return lambda pod: pod["containers"][0]["securityContext"].update(change)


def _pod(change: Json) -> Weaken:
    return lambda pod: pod.update(change)


def _pod_security(change: Json) -> Weaken:
    return lambda pod: pod["securityContext"].update(change)


def _limits(change: Json) -> Weaken:
    return lambda pod: pod["containers"][0]["resources"]["limits"].update(change)


def _volume(source: Json) -> Weaken:
    return lambda pod: pod["volumes"].append({"name": "more", **source})


def _row(pod: Json, _taken: Json) -> None:
    """A change that gives the Pod a row, as a fleet's Pods have one."""
    pod["volumes"].append({"name": "rows", "configMap": {"name": "fleet-x"}})
    mount = {"name": "rows", "mountPath": "/.sandwright-row", "readOnly": True}
    pod["containers"][0]["volumeMounts"].append({**mount, "subPathExpr": "$(JOB_COMPLETION_INDEX)"})


def without(*names: str | int) -> Weaken:
    def weaken(pod: Any) -> None:
        for name in names[:-1]:
            pod = pod[name]
        del pod[names[-1]]

    return weaken


OTHER = {"name": "other", "image": "sandwright/debian:latest", "command": ["true"]}
WEAKENED: dict[str, tuple[Weaken, str]] = {
    "hostNetwork": (_pod({"hostNetwork": True}), "spec.hostNetwork"),
    "hostPID": (_pod({"hostPID": True, "hostUsers": True}), "spec.hostPID"),
    "hostIPC": (_pod({"hostIPC": True, "hostUsers": True}), "spec.hostIPC"),
    "shareProcessNamespace": (_pod({"shareProcessNamespace": True}), "spec.shareProcessNamespace"),
    "hostUsers": (_pod({"hostUsers": True}), "spec.hostUsers"),
    "hostUsers absent": (without("hostUsers"), "spec.hostUsers"),
    "token": (_pod({"automountServiceAccountToken": True}), "spec.automountServiceAccountToken"),
    "token by default": (without("automountServiceAccountToken"), "spec.automountServiceAccountToken"),
    "service account": (_pod({"serviceAccountName": "other"}), "spec.serviceAccountName"),
    "nodeName": (_pod({"nodeName": "node-1"}), "spec.nodeName"),
    "nodeSelector": (_pod({"nodeSelector": {"kubernetes.io/hostname": "node-1"}}), "spec.nodeSelector"),
    "tolerations": (_pod({"tolerations": [{"operator": "Exists"}]}), "spec.tolerations"),
    "affinity": (
        _pod({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}}),
        "spec.affinity",
    ),
    "scheduler": (_pod({"schedulerName": "mine"}), "spec.schedulerName"),
    "runtimeClassName": (_pod({"runtimeClassName": "weak"}), "spec.runtimeClassName"),
    "initContainers": (_pod({"initContainers": [OTHER]}), "spec.initContainers"),
    "second container": (lambda pod: pod["containers"].append(OTHER), "spec.containers"),
    "hostAliases": (_pod({"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["x"]}]}), "spec.hostAliases"),
    "dnsPolicy": (_pod({"dnsPolicy": "Default"}), "spec.dnsPolicy"),
    "nameservers": (_pod({"dnsConfig": {"nameservers": ["1.1.1.1"]}}), "spec.dnsConfig"),
    "restartPolicy": (_pod({"restartPolicy": "OnFailure"}), "spec.restartPolicy"),
    "time": (_pod({"activeDeadlineSeconds": 61}), "spec.activeDeadlineSeconds"),
    "no time": (without("activeDeadlineSeconds"), "spec.activeDeadlineSeconds"),
    "grace": (_pod({"terminationGracePeriodSeconds": 3600}), "spec.terminationGracePeriodSeconds"),
    "sysctls": (
        _pod_security({"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}),
        "spec.securityContext.sysctls",
    ),
    "runAsUser 0": (_pod_security({"runAsUser": 0}), "spec.securityContext.runAsUser"),
    "runAsGroup 0": (_pod_security({"runAsGroup": 0}), "spec.securityContext.runAsGroup"),
    "runAsNonRoot": (_pod_security({"runAsNonRoot": False}), "spec.securityContext.runAsNonRoot"),
    "fsGroup": (_pod_security({"fsGroup": 0}), "spec.securityContext.fsGroup"),
    "groups": (_pod_security({"supplementalGroups": [0]}), "spec.securityContext.supplementalGroups"),
    "SELinux": (
        _pod_security({"seLinuxOptions": {"type": "spc_t"}}),
        "spec.securityContext.seLinuxOptions",
    ),
    "AppArmor": (
        _pod_security({"appArmorProfile": {"type": "Unconfined"}}),
        "spec.securityContext.appArmorProfile",
    ),
    "seccomp": (
        _pod_security({"seccompProfile": {"type": "Unconfined"}}),
        "spec.securityContext.seccompProfile.type",
    ),
    "seccomp of the runtime": (
        _pod_security({"seccompProfile": {"type": "RuntimeDefault"}}),
        "spec.securityContext.seccompProfile.type",
    ),
    "seccomp of somebody": (
        _pod_security({"seccompProfile": {"type": "Localhost", "localhostProfile": "open.json"}}),
        "spec.securityContext.seccompProfile.localhostProfile",
    ),
    "seccomp of the container": (
        _security({"seccompProfile": {"type": "Unconfined"}}),
        "spec.containers[0].securityContext.seccompProfile",
    ),
    "no security context": (
        without("containers", 0, "securityContext"),
        "spec.containers[0].securityContext",
    ),
    "privileged": (
        _security({"privileged": True, "allowPrivilegeEscalation": True}),
        "spec.containers[0].securityContext.privileged",
    ),
    "escalation": (
        _security({"allowPrivilegeEscalation": True}),
        "spec.containers[0].securityContext.allowPrivilegeEscalation",
    ),
    "writable root": (
        _security({"readOnlyRootFilesystem": False}),
        "spec.containers[0].securityContext.readOnlyRootFilesystem",
    ),
    "capabilities": (
        _security({"capabilities": {"drop": ["ALL"], "add": ["NET_RAW"]}}),
        "spec.containers[0].securityContext.capabilities.add",
    ),
    "capabilities kept": (
        _security({"capabilities": {"drop": ["NET_RAW"]}}),
        "spec.containers[0].securityContext.capabilities.drop",
    ),
    "procMount": (_security({"procMount": "Unmasked"}), "spec.containers[0].securityContext.procMount"),
    "root of the container": (
        _security({"runAsUser": 0}),
        "spec.containers[0].securityContext.runAsUser",
    ),
    "image": (_container({"image": "somebody/else:latest"}), "spec.containers[0].image"),
    "pull policy": (_container({"imagePullPolicy": "Always"}), "spec.containers[0].imagePullPolicy"),
    "hook": (
        _container({"lifecycle": {"preStop": {"exec": {"command": ["true"]}}}}),
        "spec.containers[0].lifecycle",
    ),
    "probe": (
        _container({"livenessProbe": {"tcpSocket": {"port": 1, "host": "10.0.0.1"}}}),
        "spec.containers[0].livenessProbe",
    ),
    "hostPort": (
        _container({"ports": [{"containerPort": 80, "hostPort": 80}]}),
        "spec.containers[0].ports",
    ),
    "secrets": (
        _container({"envFrom": [{"secretRef": {"name": "x"}}]}),
        "spec.containers[0].envFrom",
    ),
    "a secret": (
        _container({"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "x", "key": "x"}}}]}),
        "spec.containers[0].env",
    ),
    "a variable": (_container({"env": [{"name": "LD_PRELOAD", "value": "/x"}]}), "spec.containers[0].env"),
    "hostPath": (_volume({"hostPath": {"path": "/"}}), "spec.volumes"),
    "secret volume": (_volume({"secret": {"secretName": "x"}}), "spec.volumes"),
    "token volume": (
        _volume({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}),
        "spec.volumes",
    ),
    "memory for /tmp": (
        lambda pod: pod["volumes"][0]["emptyDir"].update({"medium": "Memory"}),
        "spec.volumes",
    ),
    "more of /tmp": (lambda pod: pod["volumes"][0]["emptyDir"].update({"sizeLimit": "1Ti"}), "spec.volumes"),
    "another mount": (
        lambda pod: pod["containers"][0]["volumeMounts"].append({"name": "tmp", "mountPath": "/bin"}),
        "spec.containers[0].volumeMounts",
    ),
    "a row in place of a mount": (
        lambda pod: _row(pod, pod["containers"][0]["volumeMounts"].pop()),
        "spec.containers[0].volumeMounts",
    ),
    "message in a file": (
        _container({"terminationMessagePath": "/etc/passwd"}),
        "spec.containers[0].terminationMessagePath",
    ),
    "no mount": (_container({"volumeMounts": []}), "spec.containers[0].volumeMounts"),
    "memory": (_limits({"memory": "65Mi"}), "spec.containers[0].resources.limits.memory"),
    "no memory": (
        without("containers", 0, "resources", "limits", "memory"),
        "spec.containers[0].resources.limits.memory",
    ),
    "processors": (_limits({"cpu": "1"}), "spec.containers[0].resources.limits.cpu"),
    "disk": (
        _limits({"ephemeral-storage": "1Ti"}),
        "spec.containers[0].resources.limits.ephemeral-storage",
    ),
}
"""By name: a change of the rendered Pod, and the field in the refusal's message."""


class Namespace:
    """A sandbox's namespace in which Pod Security admits everything: only our policy decides."""

    def __init__(self, person: Person) -> None:
        self.person = person
        rendered = person.project / ".sandbox/kubernetes/job.yaml"
        self.job: Json = yaml.load(rendered.read_bytes(), yaml.CSafeLoader)
        self.name = person.name()

    def pod(self) -> Json:
        template = copy.deepcopy(self.job["spec"]["template"])
        template["spec"]["containers"][0]["command"] = ["true"]
        metadata = {"name": "tried", "namespace": self.name, "labels": template["metadata"]["labels"]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}

    def create(self, document: Json, *, dry: bool = True) -> process.Result:
        words = ("create", "-f", "-", *["--dry-run=server"] * dry)
        return self.person.cluster.kubectl(*words, stdin=json.dumps(document).encode(), check=False)


@pytest.fixture(scope="module")
def guarded(running: Any, tmp_path_factory: pytest.TempPathFactory) -> Namespace:
    """The base, installed as by an administrator, with the node's own directory for filters."""
    home = tmp_path_factory.mktemp("home")
    person = Person(running, home, home / "p", running.kubeconfig)
    person.policy(POLICY, profile=False)
    install(person)
    namespace = Namespace(person)
    level = "pod-security.kubernetes.io/enforce=privileged"
    for account in ("default", "other"):
        words = ("create", "serviceaccount", account, "--namespace", namespace.name)
        running.kubectl(*words, check=False)
    running.kubectl("label", "namespace", namespace.name, "--overwrite", level)
    running.kubectl("delete", "limitrange", "sandbox", "--namespace", namespace.name)
    until_it_refuses(namespace)
    return namespace


def install(person: Person) -> None:
    rendered = person.sandwright("render", "--method", "kubernetes-install")
    assert rendered.returncode == 0, rendered.stderr
    base = person.project / ".sandbox/kubernetes-install"
    daemon = base / "profile-daemonset.yaml"
    daemon.write_text(daemon.read_text().replace("/var/lib/kubelet/seccomp", str(person.cluster.profiles)))
    person.cluster.kubectl("apply", "-k", str(base))


def until_it_refuses(namespace: Namespace) -> None:
    weak = namespace.pod()
    weak["spec"]["hostNetwork"] = True

    def refused() -> bool:
        """Repeat the attempt: an API server that loads new policies may admit a Pod that it refused."""
        return all("spec.hostNetwork" in namespace.create(weak).stderr for _ in range(10))

    until(refused, "the policy does not hold")


def test_the_rendered_pod_is_admitted(guarded: Namespace) -> None:
    made = guarded.create(guarded.pod())
    assert made.status == 0, made.stderr


@pytest.mark.parametrize("name", WEAKENED)
def test_a_weakened_pod_is_refused(guarded: Namespace, name: str) -> None:
    weaken, field = WEAKENED[name]
    pod = guarded.pod()
    weaken(pod["spec"])
    made = guarded.create(pod)
    assert made.status != 0, f"{name} is admitted"
    if name == "runtimeClassName":
        assert "weak" in made.stderr, "there is no such class, and the API server says so itself"
        return
    assert f"{field}:" in made.stderr, made.stderr


def test_pods_of_others(guarded: Namespace) -> None:
    """A user who may create Pods can create none that counts as a run, with our labels or without."""
    made = guarded.create(guarded.pod(), dry=False)
    assert made.status != 0
    assert "must be the controller of Jobs" in made.stderr
    pod = guarded.pod()
    pod["metadata"]["labels"] = {}
    assert "metadata.labels[app.kubernetes.io/name]:" in guarded.create(pod).stderr


CHOOSING = (
    *("container.apparmor.security.beta.kubernetes.io/sandbox", "k8s.v1.cni.cncf.io/networks"),
    *("v1.multus-cni.io/default-network", "io.kubernetes.cri-o.Devices", "dev.gvisor.flag.network"),
    *("seccomp-profile.kubernetes.cri-o.io/sandbox", "io.katacontainers.config.hypervisor.path"),
    *("cdi.k8s.io/x", "devices.nri.io/container.sandbox"),
)


@pytest.mark.parametrize("key", CHOOSING)
def test_annotations_choose_nothing(guarded: Namespace, key: str) -> None:
    """They choose neither other networks nor devices; annotations of a network plugin are admitted."""
    pod = guarded.pod()
    pod["metadata"]["annotations"] = {key: "unconfined"}
    assert "metadata.annotations: must not choose" in guarded.create(pod).stderr
    pod["metadata"]["annotations"] = {"k8s.v1.cni.cncf.io/network-status": "[]", "example.org/x": "y"}
    assert guarded.create(pod).status == 0


def test_runs_under_it(guarded: Namespace) -> None:
    """The DaemonSet brings the filter; a run and a fleet with rows work, and no user can enter them."""
    person = guarded.person
    until(lambda: any(person.cluster.profiles.glob("sandwright-*.json")), "no filter came", within=120)
    level = "pod-security.kubernetes.io/enforce=restricted"
    person.cluster.kubectl("label", "namespace", guarded.name, "--overwrite", level)
    ended = person.run("sh", "-c", "grep Seccomp: /proc/self/status; exit 7")
    assert (ended.returncode, ended.stdout) == (7, "Seccomp:\t2\n"), ended.stderr
    (person.project / "rows").write_text("3\n0\n")
    fleet = [*SANDWRIGHT, "fleet", "--name", "under", "--rows", "rows", "--", "sh", "-c", "exit $1", "x"]
    ran = subprocess.run(
        fleet,
        cwd=person.project,
        env=person.environ,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert ran.returncode == 6, ran.stderr
    lines = [json.loads(line) for line in (person.project / "fleet-under.jsonl").read_text().splitlines()]
    assert {each["index"]: each["status"] for each in lines} == {0: 3, 1: 0}


def test_nobody_enters_a_sandbox(guarded: Namespace) -> None:
    person = guarded.person
    with person.start("sh", "-c", "echo started; sleep 120") as running_:
        assert running_.stdout is not None
        assert running_.stdout.readline() == b"started\n"
        level = "pod-security.kubernetes.io/enforce=privileged"
        person.cluster.kubectl("label", "namespace", guarded.name, "--overwrite", level)
        words = ("get", "pods", "--namespace", guarded.name, "-o", "name")
        (pod,) = [each for each in person.cluster.kubectl(*words).text.split() if "tried" not in each]
        into = person.cluster.kubectl("exec", "--namespace", guarded.name, pod, "--", "true", check=False)
        beside = person.cluster.kubectl(
            *("debug", "--namespace", guarded.name, pod, "--image=sandwright/debian:latest", "--", "true"),
            check=False,
        )
        running_.terminate()
        running_.wait(LIMIT)
    assert "pods/exec: nobody enters a sandbox" in into.stderr
    assert "spec.ephemeralContainers: must be absent" in beside.stderr, beside.stderr


def test_the_limits_hold(guarded: Namespace) -> None:
    """In the fleets' namespace, which still has its LimitRange, that refuses before the policy does."""
    pod = guarded.pod()
    pod["metadata"]["namespace"] = f"{guarded.name}-fleet"
    pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = "65Mi"
    guarded.person.cluster.kubectl(
        *("create", "serviceaccount", "default", "--namespace", pod["metadata"]["namespace"]), check=False
    )
    assert "maximum memory usage per Container" in guarded.create(pod).stderr
