"""Starts a Kubernetes cluster of one node on this machine, and removes all of it.

Its processes, mounts and network are in separate namespaces; this machine has one end of a network between
the two, cgroups below one name, and one directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster import configuration, programs
from cluster.configuration import NODE, PAUSE, Place
from cluster.machine import control_groups, kept_settings, until
from sandwright import process
from sandwright.engines.archive import archive_member, write_docker_archive
from sandwright.errors import HostError
from sandwright.host import collect_host

START_LIMIT = 240.0
"""Seconds until the node is ready."""

_ASK = 20.0
Json = dict[str, Any]


@dataclass(frozen=True)
class Cluster:
    """A running cluster."""

    place: Place
    first: int

    @property
    def kubeconfig(self) -> str:
        """The administrator's kubeconfig."""
        return str(self.place.kubeconfig)

    @property
    def profiles(self) -> Path:
        """The directory of the node's seccomp profiles."""
        return self.place.folder / "kubelet" / "seccomp"

    def inside(self, *words: str | os.PathLike[str], **options: Any) -> process.Result:
        """Run a program in the node's namespaces."""
        target = f"--target={self.first}"
        return process.run("nsenter", target, "--mount", "--net", "--pid", "--", *words, **options)

    def load(self, reference: str, layer: bytes, config: Json) -> None:
        """Load an image of one layer on the node."""
        archive = self.place.folder / "image.tar"
        with archive.open("wb") as sink:
            write_docker_archive(sink, reference, collect_host().platform, layer, config)
        self.load_archive(archive)
        archive.unlink()

    def load_archive(self, archive: Path) -> None:
        """Load the images of an archive, Docker's or OCI's, on the node."""
        address = "/run/containerd/containerd.sock"
        words = ("--address", address, "--namespace", "k8s.io", "images", "import", "--no-unpack=false")
        self.inside(programs.find("ctr"), *words[:-1], archive, timeout=120)

    def trust(self, registry: str) -> None:
        """Let the node pull from a registry without TLS."""
        folder = self.place.folder / "registries" / registry
        folder.mkdir(parents=True)
        (folder / "hosts.toml").write_text(f'server = "http://{registry}"\n')

    def restart(self, part: str, *, after: float = 0) -> None:
        """Kill one of its programs, start it again after this number of seconds, and wait for that."""
        asked = self.place.folder / f"{part}.restart"
        part_file = asked.with_suffix(".part")
        part_file.write_text(str(after))
        part_file.rename(asked)
        until(lambda: not asked.exists(), 60 + after, f"{part} is started again")

    def kubectl(self, *words: str, stdin: bytes | None = None, check: bool = True) -> process.Result:
        """Run kubectl as the administrator."""
        environment = {**os.environ, "KUBECONFIG": self.kubeconfig}
        return process.run("kubectl", *words, stdin=stdin, check=check, timeout=60, env=environment)


@contextlib.contextmanager
def cluster(*, limit: float = START_LIMIT) -> Iterator[Cluster]:
    """A cluster for the length of a `with`. Raise HostError when it is not ready within `limit` seconds."""
    deadline = time.monotonic() + limit
    with contextlib.ExitStack() as stack:
        place = _place(Path(stack.enter_context(_directory())))
        configuration.write_configuration(place, programs.runtimes())
        stack.enter_context(kept_settings())
        stack.enter_context(control_groups(place.name))
        found = Cluster(place, stack.enter_context(_namespaces(place)))
        try:
            _ready(found, deadline)
        except Exception:
            _show_logs(place)
            raise
        yield found


def _show_logs(place: Place) -> None:
    import sys  # noqa: PLC0415

    for log in sorted((place.folder / "logs").glob("*")):
        if log.is_file():
            sys.stderr.write(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}\n")


@contextlib.contextmanager
def _directory() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="sandwright-cluster-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)  # a Pod's user namespace passes through
        yield name


def _place(folder: Path) -> Place:
    """A network of two addresses of 198.18.0.0/16, which is set aside for tests (RFC 2544)."""
    number = secrets.randbelow(1 << 14) << 2
    first = (198 << 24) + (18 << 16) + number
    host, node = (".".join(str(first + each >> shift & 255) for shift in (24, 16, 8, 0)) for each in (1, 2))
    return Place(folder, f"sw{secrets.token_hex(4)}", host, node)


@contextlib.contextmanager
def _namespaces(place: Place) -> Iterator[int]:
    """Start `node.py` in new namespaces, and give its process id. All processes in them end with it."""
    folder = place.folder
    for each in ("logs/pods", "kubelet/seccomp"):
        (folder / each).mkdir(parents=True)
    (folder / "start.json").write_text(json.dumps(_start(place)))
    words = (
        "unshare",
        "--net",
        "--mount",
        "--pid",
        "--ipc",
        "--uts",
        "--fork",
        "--kill-child",
        "--mount-proc",
    )
    inner = Path(__file__).with_name("node.py")
    reading, writing = os.pipe()
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((folder / "logs" / "node").open("ab"))
        stdin = stack.enter_context(os.fdopen(reading, "rb"))
        stack.callback(lambda: os.close(writing))
        python = "/usr/bin/python3"
        running = stack.enter_context(process.start(*words, python, inner, folder, stdin=stdin, stdout=log))
        first = _child(running.pid)
        _connect(place, first)
        try:
            yield first
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(first, signal.SIGKILL)
            running.wait(30)


def _child(parent: int) -> int:
    found: list[int] = []

    def look() -> bool:
        found[:] = map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
        return bool(found)

    until(look, 10, "the namespaces are there")
    return found[0]


def _connect(place: Place, target: int) -> None:
    """Connect this machine and the node. The connection ends with the node's namespace."""
    peer = ("type", "veth", "peer", "name", "eth0", "netns", str(target))
    process.run("ip", "link", "add", place.name, *peer)
    process.run("ip", "address", "add", f"{place.host}/30", "dev", place.name)
    process.run("ip", "link", "set", place.name, "up")


def _start(place: Place) -> Json:
    """The commands that `node.py` starts. Debian's etcd keeps its data in memory."""
    kubernetes = str(programs.find("kubernetes"))
    etcd = ["etcd", "--data-dir=/run/etcd", "--listen-client-urls=http://127.0.0.1:2379"]
    etcd += ["--advertise-client-urls=http://127.0.0.1:2379", "--listen-peer-urls=http://127.0.0.1:2380"]
    containerd = [str(programs.find("containerd")), f"--config={place.folder}/containerd.toml"]
    commands = {
        "etcd": etcd,
        "containerd": containerd,
        "kube-apiserver": [kubernetes, "kube-apiserver", *configuration.api_server(place)],
        "kube-controller-manager": [
            kubernetes,
            "kube-controller-manager",
            *configuration.controller_manager(place),
        ],
        "kube-scheduler": [kubernetes, "kube-scheduler", *configuration.scheduler(place)],
        "kubelet": [kubernetes, "kubelet", *configuration.kubelet(place)],
    }
    ip = ["ip", "address", "add", f"{place.node}/30", "dev", "eth0"]
    network = [["ip", "link", "set", "lo", "up"], ip, ["ip", "link", "set", "eth0", "up"]]
    network += [["ip", "route", "add", "default", "via", place.host]]
    path = f"{programs.find('containerd').parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        "commands": commands,
        "network": network,
        "environment": {"PATH": path, "HOME": str(place.folder)},
    }


def _ready(found: Cluster, deadline: float) -> None:
    """Wait until the node is ready and has the Pods' image."""
    left = deadline - time.monotonic()
    until(
        lambda: _alive(found) and bool(_asked(found, "get", "--raw", "/readyz")),
        left,
        "the API server answers",
    )
    layer = _pause_layer()
    left = deadline - time.monotonic()
    until(lambda: _alive(found) and bool(_containerd(found)), left, "containerd answers")
    found.load(PAUSE, layer, {"Entrypoint": ["/pause"]})
    status = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
    words = ("get", "node", NODE, "-o", status)
    left = deadline - time.monotonic()
    until(lambda: _alive(found) and _asked(found, *words).text == "True", left, "the node is ready")
    words = ("get", "serviceaccount", "default", "--namespace", "default")
    until(lambda: bool(_asked(found, *words)), deadline - time.monotonic(), "the controllers work")


def _alive(found: Cluster) -> bool:
    ended = found.place.folder / "ended"
    if ended.exists():
        raise HostError(f"the cluster does not start: {ended.read_text()}")
    if not Path(f"/proc/{found.first}").exists():
        raise HostError("the cluster does not start: its first process is gone")
    return True


def _asked(found: Cluster, *words: str) -> process.Result:
    return found.kubectl("--request-timeout=5s", *words, check=False)


def _containerd(found: Cluster) -> process.Result:
    words = ("--address", "/run/containerd/containerd.sock", "version")
    return found.inside(programs.find("ctr"), *words, check=False, timeout=_ASK)


def _pause_layer() -> bytes:
    import io  # noqa: PLC0415
    import tarfile  # noqa: PLC0415

    content, layer = programs.pause(), io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.addfile(archive_member("pause", size=len(content)), io.BytesIO(content))
    return layer.getvalue()


def run_command(found: Cluster, words: Sequence[str], *, limit: float) -> int:
    """Run a command with KUBECONFIG, in the foreground; give its status."""
    import subprocess  # noqa: PLC0415 - it is to have our terminal

    environment = {
        **os.environ,
        "KUBECONFIG": found.kubeconfig,
        "SANDWRIGHT_CLUSTER": str(found.place.folder),
    }
    return subprocess.run(words, check=False, env=environment, timeout=limit).returncode
