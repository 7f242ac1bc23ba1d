"""A user of a test cluster."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.start import Cluster, cluster
from sandwright import process
from sandwright_kubernetes.sync import REGISTRY
from support import standby
from support.registryserver import registry_server

LIMIT = 600.0
SANDWRIGHT = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")


@dataclass
class Person:
    """A user with a project, a kubeconfig and a home; the directories are made."""

    cluster: Cluster
    home: Path
    project: Path
    kubeconfig: str
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.home / "run").mkdir(parents=True, mode=0o700, exist_ok=True)
        self.project.mkdir(exist_ok=True)

    def policy(self, text: str, *, profile: bool = True) -> None:
        """Write a policy, and put its filter on the node as `install-profile` does."""
        (self.project / "sandbox.yaml").write_text(f"schema: 1\nmethod: kubernetes\n{text}")
        rendered = self.sandwright("render")
        assert rendered.returncode == 0, rendered.stderr
        if profile:
            process.run(self.project / ".sandbox/kubernetes/install-profile", self.cluster.profiles)

    @property
    def environ(self) -> dict[str, str]:
        own = {
            "HOME": str(self.home),
            "KUBECONFIG": self.kubeconfig,
            "XDG_RUNTIME_DIR": str(self.home / "run"),
        }
        return {
            "PATH": os.environ["PATH"],
            "SANDWRIGHT_TRUST": "1",
            "LC_ALL": "C.UTF-8",
            **own,
            **self.variables,
        }

    def sandwright(self, *words: str, reads: str | None = None) -> subprocess.CompletedProcess[str]:
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if reads is None else {"input": reads}
        return subprocess.run(
            [*standby.COMMAND, *words],
            **given,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            cwd=self.project,
            env=self.environ,
        )

    def run(self, *words: str, reads: str | None = None) -> subprocess.CompletedProcess[str]:
        return self.sandwright("run", "--", *words, reads=reads)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*SANDWRIGHT, "run", "--", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.project,
            env=self.environ,
        )

    def name(self) -> str:
        """The namespace of the project's sandbox."""
        text = (self.project / ".sandbox/kubernetes/namespace.yaml").read_text()
        return next(line.split()[-1] for line in text.splitlines() if line.startswith("  name:"))

    def left(self) -> list[str]:
        """Jobs and Pods of this project that are still in the cluster."""
        listed = self.cluster.kubectl("get", "jobs,pods", "--namespace", self.name(), "-o", "name")
        return listed.text.splitlines()


@contextlib.contextmanager
def travelling_person(folder: Path, layer: bytes) -> Iterator[Person]:
    """A user of a new cluster, whose projects are transferred through a registry.

    `layer` is that of the image.
    """
    with cluster() as running, registry_server(folder / "registry", address=running.place.host) as registry:
        running.load("docker.io/sandwright/debian:latest", layer, {"Cmd": ["/bin/sh"]})
        running.trust(registry.host)
        variables = {REGISTRY: f"http://{registry.host}/projects"}
        yield Person(running, folder, folder, running.kubeconfig, variables)
