"""The configuration of a test cluster's parts, as files in its directory and as command lines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.certificates import make_authority

NODE = "node-1"
PODS = "10.244.0.0/16"
SERVICES = "10.96.0.0/16"
PAUSE = "docker.io/sandwright/pause:test"
Json = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """The location of a cluster.

    `folder` contains all of it; its cgroups and its network interface on this machine have `name`. `host` and
    `node` are the addresses of the two ends of a network between machine and cluster.
    """

    folder: Path
    name: str
    host: str
    node: str

    @property
    def server(self) -> str:
        """The address of the API server."""
        return f"https://{self.node}:6443"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "admin.conf"


def write_configuration(place: Place, programs: dict[str, Path]) -> None:
    """Certificates, one kubeconfig for each client, and the files of kubelet, containerd and CNI."""
    authority = make_authority(place.folder / "pki")
    names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"]
    authority.issue("apiserver", "kube-apiserver", addresses=[*names, "10.96.0.1", place.node, "127.0.0.1"])
    authority.issue("kubelet-server", NODE, addresses=[NODE, place.node])
    authority.issue("apiserver-kubelet", "kube-apiserver-kubelet-client", groups=["system:masters"])
    authority.issue("accounts", "service-accounts")
    for name, common, groups in (
        ("admin", "admin", ["system:masters"]),
        ("kube-controller-manager", "system:kube-controller-manager", []),
        ("kube-scheduler", "system:kube-scheduler", []),
        ("kubelet", f"system:node:{NODE}", ["system:nodes"]),
        ("ada", "ada", ["developers"]),
    ):
        authority.issue(name, common, groups=groups)
        write_kubeconfig(place, name)
    (place.folder / "kubelet.json").write_text(json.dumps(_kubelet(place)))
    (place.folder / "containerd.toml").write_text(_containerd(place, programs))
    (place.folder / "cni").mkdir()
    (place.folder / "cni" / "10-pods.conflist").write_text(json.dumps(_network(place)))


def write_kubeconfig(place: Place, name: str) -> None:
    """A kubeconfig NAME.conf with the client's certificate."""
    keys = place.folder / "pki"
    cluster = {"server": place.server, "certificate-authority": str(keys / "ca.crt")}
    user = {"client-certificate": str(keys / f"{name}.crt"), "client-key": str(keys / f"{name}.key")}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
        "current-context": "test",
    }
    (place.folder / f"{name}.conf").write_text(json.dumps(document))


def api_server(place: Place) -> list[str]:
    """The options of the API server.

    Admission has its defaults: Pod Security, quota, LimitRange and CEL policies are on.
    """
    keys = place.folder / "pki"
    options = {
        "etcd-servers": "http://127.0.0.1:2379",
        "secure-port": "6443",
        "advertise-address": place.node,
        "tls-cert-file": keys / "apiserver.crt",
        "tls-private-key-file": keys / "apiserver.key",
        "client-ca-file": keys / "ca.crt",
        "kubelet-client-certificate": keys / "apiserver-kubelet.crt",
        "kubelet-client-key": keys / "apiserver-kubelet.key",
        "kubelet-certificate-authority": keys / "ca.crt",
        "kubelet-preferred-address-types": "InternalIP",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-signing-key-file": keys / "accounts.key",
        "service-account-key-file": keys / "accounts.crt",
        "service-cluster-ip-range": SERVICES,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "anonymous-auth": "false",
        "profiling": "false",
    }
    return [f"--{name}={value}" for name, value in options.items()]


def controller_manager(place: Place) -> list[str]:
    """The options of the controller manager: without a cloud, without leader election."""
    keys = place.folder / "pki"
    options = {
        "kubeconfig": place.folder / "kube-controller-manager.conf",
        "service-account-private-key-file": keys / "accounts.key",
        "root-ca-file": keys / "ca.crt",
        "use-service-account-credentials": "true",
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
    }
    return [f"--{name}={value}" for name, value in options.items()]


def scheduler(place: Place) -> list[str]:
    """The options of the scheduler."""
    return [
        f"--kubeconfig={place.folder / 'kube-scheduler.conf'}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
    ]


def kubelet(place: Place) -> list[str]:
    """The options of the kubelet."""
    return [
        f"--config={place.folder / 'kubelet.json'}",
        f"--kubeconfig={place.folder / 'kubelet.conf'}",
        f"--root-dir={place.folder / 'kubelet'}",
        f"--hostname-override={NODE}",
        f"--node-ip={place.node}",
    ]


def _kubelet(place: Place) -> Json:
    """The configuration of the kubelet.

    Cgroups may be of version 1. No process here may lower an `oom_score_adj` (CAP_SYS_RESOURCE), so the
    kubelet keeps its own.
    """
    keys = place.folder / "pki"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": place.node,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(keys / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(keys / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(keys / "kubelet-server.key"),
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{place.name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "oomScoreAdj": 0,
        "podCIDR": PODS,
        "maxPods": 250,
        "podLogsDir": str(place.folder / "logs" / "pods"),
        "volumePluginDir": str(place.folder / "volume-plugins"),
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "registryPullQPS": 0,
        "syncFrequency": "10s",
    }


def _network(place: Place) -> Json:
    """Pods reach the node and its routes; no address is translated, and no NetworkPolicy is enforced."""
    ipam = {
        "type": "host-local",
        "subnet": PODS,
        "dataDir": str(place.folder / "addresses"),
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{"type": "ptp", "ipMasq": False, "ipam": ipam}],
    }


def _containerd(place: Place, programs: dict[str, Path]) -> str:
    """containerd's configuration. No process here may lower an `oom_score_adj`, so it limits Pods' values."""
    handlers = "".join(
        f"""
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{name}]
runtime_type = {json.dumps(kind)}
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{name}.options]
{option}
"""
        for name, kind, option in _handlers(programs)
    )
    return f"""version = 3
root = "{place.folder}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "{place.folder}/registries"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{place.folder}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"
{handlers}"""


def _handlers(programs: dict[str, Path]) -> list[tuple[str, str, str]]:
    found = [("runc", "io.containerd.runc.v2", f'BinaryName = "{programs["runc"]}"')]
    if "runsc" in programs:
        options = f'BinaryName = "{programs["runsc"]}"\nRoot = "/run/containerd/runsc"'
        found.append(("runsc", "io.containerd.runc.v2", options))
    return found
