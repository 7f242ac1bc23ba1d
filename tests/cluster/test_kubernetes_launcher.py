"""The launcher for a cluster, with a stand-in for kubectl: the requests, not the behaviour of a cluster."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandwright import process
from sandwright.api import Policy
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright_kubernetes.render import render_kubernetes
from support.goldens import write_artifacts

POLICY = "schema: 1\nmethod: kubernetes\nextends: []\n"
STAND_IN = Path(__file__).with_name("standin_kubectl.py")


class Cluster:
    """A rendered sandbox and the stand-in on PATH."""

    def __init__(self, folder: Path, text: str) -> None:
        entries = dict.fromkeys(("/", "/home", "/home/u", "/home/u/p"), HostEntry("directory"))
        facts = HostFacts(os="linux", home="/home/u", project="/home/u/p", entries=entries)
        self.folder = write_artifacts(
            folder / "made", render_kubernetes(Policy.from_text(text).resolve(facts))
        )
        self.state = folder / "state"
        self._bin = folder / "bin"
        for each in (self.state, self._bin):
            each.mkdir()
        kubectl = self._bin / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
        kubectl.chmod(0o755)

    def launch(self, *command: str, wrong: str = "", path: bool = True) -> process.Result:
        own = {"STAND_IN_STATE": str(self.state), "STAND_IN": wrong, "SANDWRIGHT_POLL": "0.05"}
        environment = {"PATH": f"{self._bin}:{os.defpath}" if path else str(self._programs()), **own}
        return process.run(self.folder / "launch", *command, env=environment, check=False, timeout=60)

    def launched(self, *command: str) -> contextlib.AbstractContextManager[Any]:
        """The running launcher."""
        own = {"STAND_IN_STATE": str(self.state), "SANDWRIGHT_POLL": "0.05"}
        return process.start(
            self.folder / "launch", *command, env={"PATH": f"{self._bin}:{os.defpath}", **own}
        )

    def _programs(self) -> Path:
        """The programs of a machine without kubectl."""
        folder = self._bin / "others"
        folder.mkdir()
        for name in ("sha256sum", "awk", "id"):
            (folder / name).symlink_to(process.which(name))
        return folder

    def asked(self) -> list[list[str]]:
        lines = (self.state / "asked").read_text().splitlines()
        return [json.loads(line)[2:] for line in lines]

    def created(self) -> bool:
        return any(words[0] == "create" for words in self.asked())


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path, POLICY)


WORDS = [
    "plain", "", " ", "a b", "$HOME", "$$", "$(HOME)", "$$(x)", "it's", '"', "\\", "\\n", "a\nb\n", "\t",
    "\r", "\x7f", "\x01", "é", "\U0001f600", "\u2028", "\ufeff", "\x85", "-x", "- a: b", "#", "{{ 7 }}",
    "x=1", "command: []", "%s", "&", "|", "`id`", "~",
]  # fmt: skip


def test_each_argument_is_one_argument(cluster: Cluster) -> None:
    script = "import json, sys; print(json.dumps(sys.argv[1:]))"
    result = cluster.launch(sys.executable, "-c", script, *WORDS)
    assert (result.status, result.stderr) == (0, "")
    assert json.loads(result.text) == WORDS


def test_the_order_of_things(cluster: Cluster) -> None:
    """The network is closed before the Job starts, and the Job is removed at the end."""
    assert cluster.launch("true").status == 0
    asked = [" ".join(words[:3]) for words in cluster.asked()]
    steps = [each for each in asked if not each.startswith("get pods") and "job.batch" not in each[:14]]
    assert [each.replace(f"{cluster.folder}/", "") for each in steps] == [
        "get namespace sandbox-p-60ad706f",
        "apply -f quota.yaml",
        "apply -f networkpolicy.yaml",
        "create -o name",
        "logs --follow made-abcde-xyz",
        "delete --wait=false --cascade=foreground",
    ]
    assert not (cluster.state / "job").exists()


@pytest.mark.parametrize("status", [0, 1, 7, 124, 137])
def test_it_ends_as_the_command_does(cluster: Cluster, status: int) -> None:
    result = cluster.launch("sh", "-c", f"echo said; exit {status}")
    assert (result.status, result.text) == (status, "said")


@pytest.mark.parametrize(
    ("wrong", "status", "said", "created"),
    [
        (
            "no namespace",
            125,
            "there is no namespace sandbox-p-60ad706f, or the cluster does not answer",
            False,
        ),
        (
            "no networkpolicy.yaml",
            125,
            "the cluster refused networkpolicy.yaml: nothing was run",
            False,
        ),
        ("no image", 125, "the Pod does not start: no such image", True),
        ("unscheduled", 125, "the Job failed before it ran: FailedCreate", True),
        ("late", 124, "the time limit (resources.time) was reached", True),
    ],
)
def test_what_goes_wrong(cluster: Cluster, wrong: str, status: int, said: str, *, created: bool) -> None:
    result = cluster.launch("true", wrong=wrong)
    assert result.status == status
    assert f"sandbox: {said}" in result.stderr
    assert cluster.created() is created
    assert not (cluster.state / "job").exists()


def test_a_proxy_that_does_not_start(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, f"{POLICY}network: {{mode: proxy}}\n")
    refused = cluster.launch("true", wrong="no proxy")
    assert (refused.status, cluster.created()) == (125, False)
    assert "the proxy does not start" in refused.stderr
    assert cluster.launch("true").status == 0


def test_without_kubectl(cluster: Cluster) -> None:
    result = cluster.launch("true", path=False)
    assert (result.status, result.stderr) == (125, "sandbox: kubectl is not installed\n")


@pytest.mark.parametrize("name", ["job.yaml", "networkpolicy.yaml", "quota.yaml"])
def test_what_was_changed_is_not_applied(cluster: Cluster, name: str) -> None:
    with (cluster.folder / name).open("a") as file:
        file.write("# changed\n")
    result = cluster.launch("true")
    assert result.status == 125
    assert f"{name} was changed after it was rendered" in result.stderr
    assert not (cluster.state / "asked").exists()


def test_the_lines_that_are_replaced_are_alone(tmp_path: Path) -> None:
    """Each replaced line is unique, even if values look like it."""
    value = '"a\\n  name: sandbox-p-60ad706f\\n        command: []\\n"'
    cluster = Cluster(tmp_path, f"{POLICY}environment: {{set: {{V: {value}}}}}\n")
    lines = (cluster.folder / "job.yaml").read_text().split("\n")
    assert [lines.count(line) for line in ("  name: sandbox-p-60ad706f", "        command: []")] == [1, 1]
    assert cluster.launch("sh", "-c", f"cp {cluster.state}/job {cluster.state}/kept").status == 0
    made: Any = yaml.safe_load((cluster.state / "kept").read_bytes())
    plain: Any = yaml.safe_load((cluster.folder / "job.yaml").read_bytes())
    assert made["metadata"].pop("generateName") == plain["metadata"].pop("name") + "-"
    del made["spec"]["template"]["spec"]["containers"][0]["command"]
    del plain["spec"]["template"]["spec"]["containers"][0]["command"]
    assert made == plain


@pytest.mark.parametrize(
    ("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130)]
)
def test_when_it_is_told_to_end_the_job_ends_too(cluster: Cluster, sent: signal.Signals, status: int) -> None:
    with cluster.launched("sh", "-c", "echo started; exec sleep 60") as running:
        assert running.stdout.readline() == b"started\n"
        running.send_signal(sent)
        assert running.wait(30) == status
    assert cluster.asked()[-1][0] == "delete"
    assert not (cluster.state / "job").exists()
