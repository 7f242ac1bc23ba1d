"""Proofs of gVisor in a container: they pass as rendered, and fail if the container is weakened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandwright.verify import prove as proving_module
from sandwright.verify.outer import outer_outcomes
from sandwright.verify.prove import Weaken
from sandwright.verify.subject import ProofSubject
from sandwright.verify.verdict import Verdict
from support.outerimages import OuterHost, outer_host
from support.proving import resolver
from support.weakening import Artifacts, group_id, probes, replaced, several, together

POLICY = """\
schema: 1
method: gvisor
gvisor: {engine: docker}
filesystem: {write: [$PROJECT]}
environment: {pass: [TERM], set: {CI: "1"}}
resources: {memory: 256MiB}
"""
pytestmark = [
    pytest.mark.needs("docker", "busybox", "apt-get"),
]
IMAGE = b"sandwright/gvisor:latest"


@pytest.fixture(scope="module")
def host() -> Iterator[OuterHost]:
    with outer_host("docker") as found:
        yield found


def _in(host: OuterHost, weaken: Weaken | None) -> Weaken:
    """Name the image of these tests, and weaken the container."""

    def changed(subject: ProofSubject, artifacts: Artifacts) -> Artifacts:
        named = replaced(artifacts, "launch.plan", lambda text: text.replace(IMAGE, host.image.encode()))
        return named if weaken is None else weaken(subject, named)

    return changed


def _swapped(old: bytes, new: bytes) -> Weaken:
    return lambda _, artifacts: replaced(artifacts, "launch.plan", lambda text: text.replace(old, new))


def _unfiltered(_: ProofSubject, artifacts: Artifacts) -> Artifacts:
    return replaced(artifacts, "seccomp.json", lambda _: b'{"defaultAction": "SCMP_ACT_ALLOW"}')


def _opened(subject: ProofSubject, artifacts: Artifacts) -> Artifacts:
    """A denied directory that neither the container nor the sandbox hides."""
    path = f"{subject.fixture.read}/denied".encode()
    inside = replaced(
        artifacts, "launch.plan", lambda text: text.replace(b"dst=/host" + path + b",", b"dst=/tmp/other,")
    )
    return replaced(
        inside,
        "config.json",
        lambda text: text.replace(b'"destination": "' + path + b'"', b'"destination": "/tmp/other"'),
    )


_NOTHING = b"--label=weakened=1\0"
_HIDDEN = "files/denied-directory links/dots links/hard links/symbolic-to-denied links/through-proc"

WEAKENED: dict[str, tuple[Weaken, str]] = {
    "one capability more": (
        _swapped(b"--no-healthcheck\0", b"--cap-add=CAP_NET_RAW\0"),
        "outer/capabilities",
    ),
    "no new privileges": (_swapped(b"--security-opt=no-new-privileges\0", _NOTHING), "outer/privileges"),
    "no filter": (_unfiltered, "outer/filter"),
    "the root": (_swapped(b"--read-only\0", _NOTHING), "outer/places"),
    "the host's network": (_swapped(b"--network=none\0", b"--network=host\0"), "outer/namespaces"),
    "a denied directory": (_opened, _HIDDEN),
}
Red = Callable[..., dict[str, str]]


@pytest.fixture
def red(host: OuterHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Red:
    """Prove with the probes inside, or with those of the container alone; return the failing ones."""

    def proved(weaken: Weaken | None, *, container: bool) -> dict[str, str]:
        if container:
            monkeypatch.setattr(proving_module, "lifecycle", outer_outcomes)
            monkeypatch.setattr(proving_module, "catalogue", lambda _: ())
            for name in ("_cloud", "_bridging"):
                monkeypatch.setattr(proving_module, name, lambda *_: (), raising=False)
        resolve = resolver(POLICY, tmp_path / "project")
        weakened = _in(host, weaken)
        proof = proving_module.prove(resolve, "gvisor", weaken=weakened, runs=container)
        assert len(proof.outcomes) == 6 if container else len(proof.outcomes) > 90
        fine = (Verdict.PASS, Verdict.SKIPPED)
        return {each.probe: each.evidence for each in proof.outcomes if each.verdict not in fine}

    return proved


@pytest.mark.parametrize("container", [False, True], ids=["inside", "container"])
def test_as_rendered(red: Red, container: bool) -> None:
    assert red(None, container=container) == {}


@pytest.mark.parametrize("names", together(WEAKENED, {"a denied directory"}), ids=group_id)
def test_weakened(red: Red, names: list[str]) -> None:
    expected = probes(WEAKENED, names)
    weaken = several(*(WEAKENED[name][0] for name in names))
    found = red(weaken, container=min(expected).startswith("outer/"))
    assert set(found) == expected, found
