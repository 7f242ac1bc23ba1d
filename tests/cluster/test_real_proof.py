"""`verify` on a real cluster: all probes in our Pods, and in a Pod without a policy, where they fail."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cluster import programs
from cluster.person import Person, travelling_person
from cluster.start import Cluster
from sandwright.runtime.probe.protocol import Attempt, ProbeAnswer, parse_answers, requests
from sandwright.verify.catalogue import catalogue
from sandwright.verify.fixture import plant_fixture
from sandwright.verify.listeners import canary_listeners
from sandwright.verify.outcome import judge
from sandwright.verify.prove import at_fixture
from sandwright.verify.subject import ProofSubject, canaries
from sandwright.verify.verdict import Verdict
from sandwright_kubernetes.canary import cluster_canary
from sandwright_kubernetes.connection import Place as KubernetesPlace
from sandwright_kubernetes.connection import connect
from sandwright_kubernetes.sync import REGISTRY
from sandwright_kubernetes.sync.layers import parse_registry
from support.pods import busybox_layer
from support.proving import resolver
from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time for a cluster"),
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(1200),
    pytest.mark.needs("busybox", "kubectl", "docker-registry"),
]
IMAGE = "docker.io/sandwright/debian:latest"
NOT_HELD = dict.fromkeys(
    ("files/temporary-of-host", "limits/core: not held", "network/interfaces"), "skipped"
)
"""The probes that can't be proved there, each with its reason in the report."""

BREACHES = {
    "files/denied-directory", "files/denied-file", "files/denied-in-writable", "files/denied-names",
    "files/read-only", "files/protected-absent", "links/symbolic-to-denied", "links/hard", "network/beside",
}  # fmt: skip
"""Some of the probes that fail without our policy."""


@pytest.fixture(scope="module")
def everyone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    if missing := programs.missing():
        pytest.skip(f"missing: {', '.join(missing)}")
    with travelling_person(tmp_path_factory.mktemp("proof"), busybox_layer({"usr/.empty": b""})) as found:
        yield found


@pytest.mark.parametrize("preset", ["default", "strict"])
def test_the_matrix_is_green(everyone: Person, tmp_path: Path, preset: str) -> None:
    person = Person(everyone.cluster, tmp_path, tmp_path / "p", everyone.kubeconfig, everyone.variables)
    person.policy(f"extends: [{preset}]\n")
    ended = person.sandwright("verify", "--method", "kubernetes", "--json", str(tmp_path / "report"))
    assert ended.returncode == 0, ended.stdout
    found = {each["probe"]: each["verdict"] for each in json.loads((tmp_path / "report").read_text())}
    assert {name: verdict for name, verdict in found.items() if verdict != "pass"} == NOT_HELD
    assert sum(verdict == "pass" for verdict in found.values()) > 90
    assert not [name for name in namespaces(person) if "canary" in name]
    policy, shown = session(preset)
    assert policy == (person.project / "sandbox.yaml").read_text()
    said = [" ".join(line.split()) for line in ended.stdout.splitlines()]
    for line in filter(lambda line: line not in ("", "…"), shown.splitlines()):
        assert any(re.fullmatch(pattern(line), each) for each in said), line


def namespaces(person: Person) -> list[str]:
    """The namespaces that are not being deleted."""
    shown = person.cluster.kubectl("get", "namespaces", "--field-selector=status.phase=Active", "-o", "name")
    return shown.text.split()


def session(preset: str) -> tuple[str, str]:
    """The session on the page about a preset's proof: the policy, and the output."""
    page = (Path(__file__).parents[2] / "docs/methods/kubernetes.md").read_text()
    begins = "test_real_proof.py -->\n```\n$ cat sandbox.yaml\n"
    blocks = re.findall(
        f"{re.escape(begins)}(.*?)\\$ sandwright verify --method kubernetes\\n(.*?)```", page, re.DOTALL
    )
    ((policy, shown),) = [each for each in blocks if f"extends: [{preset}]" in each[0]]
    return policy, shown


def pattern(line: str) -> str:
    """A regular expression for the page's output, in which times, counts and left-out parts may differ."""
    text = re.escape(" ".join(line.split())).replace("…", ".*")
    return re.sub(r"\d+(\\\.\d)?", r"[0-9.]+", text)


class PlainPod:
    """A Pod with the defaults of a careless user: root, with a directory of the node's."""

    method = "kubernetes"

    def __init__(self, running: Cluster, root: Path, program: Path) -> None:
        self._cluster = running
        self._root = root
        self._program = program

    def attempt(self, attempts: Sequence[Attempt]) -> list[ProbeAnswer]:
        word, name = uuid.uuid4().hex, f"plain-{uuid.uuid4().hex[:8]}"
        place = {"name": "root", "mountPath": str(self._root)}
        container = {
            "name": name,
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": [str(self._program)],
            "stdin": True,
            "stdinOnce": True,
            "volumeMounts": [place],
        }
        volume = {"name": "root", "hostPath": {"path": str(self._root)}}
        overrides = json.dumps({"spec": {"containers": [container], "volumes": [volume]}})
        words = ("run", name, "--stdin", "--quiet", "--restart=Never", f"--image={IMAGE}")
        ended = self._cluster.kubectl(
            *words, f"--overrides={overrides}", stdin=requests(attempts, word=word), check=False
        )
        return list(parse_answers(ended.stdout, len(attempts), word=word))


def test_without_our_policy_they_are_red(everyone: Person, tmp_path: Path) -> None:
    text = "schema: 1\nmethod: kubernetes\nextends: [default]\n"
    connection = connect(KubernetesPlace(everyone.kubeconfig))
    registry = parse_registry(everyone.variables[REGISTRY])
    with (
        plant_fixture(Path("/var/tmp")) as fixture,
        canary_listeners(fixture.read, fixture.write, fixture.word) as heard,
        cluster_canary(connection, "plain", registry) as remote,
    ):
        resolve = at_fixture(resolver(text, tmp_path / "p"), fixture)
        policy = resolve(fixture.settings())
        subject = ProofSubject("kubernetes", policy, fixture, heard, canaries(policy), remote, host_process=1)
        probes = [each for each in catalogue(subject) if not each.skip and not each.alone]
        fixture.root.chmod(0o755)
        pod = PlainPod(everyone.cluster, fixture.root, fixture.program)
        remaining = iter(pod.attempt([step.attempt for probe in probes for step in probe.asked]))
        outcomes = [judge(each, "kubernetes", [next(remaining) for _ in each.asked]) for each in probes]
    failed = {each.probe for each in outcomes if each.verdict is Verdict.FAIL}
    (beside,) = [each for each in outcomes if each.probe == "network/beside"]
    assert "the listener beside the sandbox was reached" in beside.evidence
    assert failed >= BREACHES, BREACHES - failed
    assert sum(each.verdict is not Verdict.PASS for each in outcomes) > 60
