"""No tag moves before everything is sent, signed and read back: with a real registry, ended at any moment.

Tests of registry/attachments.py.
Tests of release/publish.py.
Tests of release/subject.py: the documents of a release.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.image.build import BuiltImage
from sandwright.registry.client import RegistryClient, RegistryRequest
from sandwright.registry.reference import Reference, parse_reference
from sandwright.registry.referrer import fallback_tag, referrers
from sandwright.registry.repository import Repository, open_repository
from sandwright.registry.settings import RegistrySettings
from sandwright.registry.transport import Response
from sandwright.release.bundle import BUNDLE
from sandwright.release.check import check_image
from sandwright.release.publish import PREDICATE, Published, make_plan, publish
from sandwright.release.signing import SigningKey, load_key
from sandwright.release.statement import SIGNATURE
from sandwright.release.subject import Release
from sandwright.verify.smoke.report import write_report
from sandwright.verify.verdict import ProbeFinding, Verdict
from support.registryserver import Server
from support.releases import new_key, released, report_of, write_key
from support.smallworld import World, small_world

pytestmark = [pytest.mark.needs("docker-registry"), pytest.mark.timeout(300)]

WRITES = {"PUT", "POST", "PATCH", "DELETE"}
DOCUMENTS = [
    "application/spdx+json",
    "application/vnd.cyclonedx+json",
    "application/vnd.sandwright.lock.v1+json",
    "application/vnd.sandwright.smoke.v1+json",
    "application/vnd.sandwright.sources.v1+json",
]


class Ended(BaseException):
    """The program has ended: no handler catches this exception."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A separate world, in which images are for one platform."""
    return small_world(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def of_one(small: World) -> dict[str, BuiltImage]:
    return small.build(platforms=["linux/amd64"])


@pytest.fixture(scope="module")
def single(small: World, of_one: dict[str, BuiltImage]) -> Release:
    return released(small, of_one)


def at(server: Server, name: str) -> Reference:
    return parse_reference(f"{server.host}/{name}")


def bring(reference: Reference, release: Release, key: SigningKey, *tags: str) -> Published:
    with open_repository(reference, RegistrySettings(), push=True) as repository:
        plan = make_plan(repository, release, key.verifier, tags or ("1",))
        return publish(repository, plan, key)


def checked(reference: Reference, key: SigningKey, scratch: Path) -> list[ProbeFinding]:
    with open_repository(reference, RegistrySettings()) as repository:
        return list(check_image(repository, reference.what, key.verifier, scratch, name="app"))


def tags(server: Server, name: str) -> dict[str, str]:
    """The tags in the registry's own files, except those in place of the referrers API."""
    folder = server.storage / "docker/registry/v2/repositories" / name / "_manifests/tags"
    found = {path.name: (path / "current/link").read_text() for path in folder.glob("*")}
    return {name: digest for name, digest in found.items() if not name.startswith("sha256-")}


class Watch:
    """Records the requests to registries, and ends the program before a certain change."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, end_before: int = 0) -> None:
        self.lines: list[str] = []
        self.changes = 0
        original = RegistryClient.send

        def send(client: RegistryClient, request: RegistryRequest) -> Response:
            self.lines.append(f"{request.method} {request.operation.what}")
            if request.method in WRITES:
                self.changes += 1
                if self.changes == end_before:
                    raise Ended
            return original(client, request)

        monkeypatch.setattr(RegistryClient, "send", send)


def test_everything_is_there_before_the_tag_is_moved(
    server: Server, release: Release, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(monkeypatch)
    done = bring(at(server, "order"), release, key, "1", "stable")
    assert (done.digest, done.tagged) == (release.root.digest, ("1", "stable"))
    wrote = [line for line in watch.lines if line.startswith("PUT manifest") or "put manifest" in line]
    moved = [line.rpartition(" ")[2] for line in wrote][-2:]
    assert moved == ["1", "stable"], "the tags are the last that is written"
    before = watch.lines[: watch.lines.index("PUT put manifest 1")]
    last_written = max(n for n, line in enumerate(before) if line.split(" ")[0] in WRITES)
    read_back = before[last_written:]
    for digest in (release.root.digest, *(each.digest for each in release.manifests.values())):
        assert f"GET manifest {digest}" in read_back
    for blob in release.image.graph.blobs:
        assert f"HEAD blob {blob.digest}" in read_back
    bundles = [line for line in read_back if line.startswith("GET blob")]
    assert len(bundles) >= 7 + 4, "documents and signed statements are read"
    _is_attached(at(server, "order"), release)
    with open_repository(at(server, "order"), RegistrySettings(), push=True) as repository:
        (line,) = make_plan(repository, release, key.verifier, ["1"]).describe()
    assert line.endswith(": nothing to do")


def _is_attached(reference: Reference, release: Release) -> None:
    """Check the attachments of each manifest."""
    with open_repository(reference, RegistrySettings()) as repository:
        whole = [each.artifact_type for each in referrers(repository, release.root.digest)]
        assert sorted(whole) == sorted([*DOCUMENTS[2:], BUNDLE, BUNDLE, BUNDLE])
        for manifest in release.manifests.values():
            own = [each.artifact_type for each in referrers(repository, manifest.digest)]
            assert sorted(own) == sorted([*DOCUMENTS[:2], BUNDLE, BUNDLE, BUNDLE])
        annotated = {
            each.annotations.get("dev.sigstore.bundle.predicateType")
            for each in referrers(repository, release.root.digest, artifact_type=BUNDLE)
        }
        names = [
            _file_name(repository, each.descriptor.digest)
            for subject in (release.root, release.manifests["linux/amd64"])
            for each in referrers(repository, subject.digest)
        ]
    assert annotated == {
        "https://slsa.dev/provenance/v1",
        "https://in-toto.io/attestation/test-result/v0.1",
        "https://sigstore.dev/cosign/sign/v1",
    }
    assert set(names) == {  # the files of `oras pull`
        *("lock.json", "sources.json", "smoke-run.json"),
        *("SBOM-cyclonedx-linux-amd64.json", "SBOM-spdx-linux-amd64.json"),
        *("provenance.sigstore.json", "signature.sigstore.json", "test-result.sigstore.json"),
        *("packages-cyclonedx-linux-amd64.sigstore.json", "packages-spdx-linux-amd64.sigstore.json"),
    }


def _file_name(repository: Repository, digest: str) -> str:
    (layer,) = json.loads(repository.manifest(digest).content)["layers"]
    return str(layer["annotations"]["org.opencontainers.image.title"])


def test_a_second_run_sends_nothing_and_takes_no_time(
    server: Server, release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for ECDSA, too, where a second signature would have other bytes.

    The measured time is the processor's, which excludes the wait for the registry.
    """
    reference, key = at(server, "twice"), new_key(tmp_path, kind="p256")
    assert bring(reference, release, key).changed
    watch = Watch(monkeypatch)
    started = time.process_time()
    assert bring(reference, release, key) == Published(release.root.digest, (), ())
    assert time.process_time() - started < 1
    assert watch.changes == 0


def test_another_key_signs_beside_the_first(
    server: Server, single: Release, key: SigningKey, tmp_path: Path
) -> None:
    reference, other = at(server, "keys:1"), new_key(tmp_path, "other")
    bring(reference, single, key)
    done = bring(reference, single, other)
    assert len(done.sent) == 12, "four statements and two signatures, twice; no part and no document"
    for each in (key, other):
        found = checked(reference, each, tmp_path / each.verifier.fingerprint)
        assert {finding.verdict for finding in found} == {Verdict.PASS}


def test_the_plan_is_told_and_nothing_done(server: Server, release: Release, key: SigningKey) -> None:
    reference = at(server, "planned")
    with open_repository(reference, RegistrySettings(), push=True) as repository:
        lines = list(make_plan(repository, release, key.verifier, ["1"]).describe())
    name = f"{reference.name}@{release.root.digest}: "
    told = [line.removeprefix(name) for line in lines]
    assert told[0].startswith("push 11 of 11 parts, ")
    assert [line.partition(",")[0] for line in told[1:8]] == [
        "attach SBOM cyclonedx linux/amd64",
        "attach SBOM spdx linux/amd64",
        "attach SBOM cyclonedx linux/arm64",
        "attach SBOM spdx linux/arm64",
        "attach lock",
        "attach sources",
        "attach smoke run",
    ]
    statements = [
        "provenance",
        "packages cyclonedx linux/amd64",
        "packages spdx linux/amd64",
        "packages cyclonedx linux/arm64",
        "packages spdx linux/arm64",
        "test result",
    ]
    assert [line.partition(",")[0] for line in told[8:]] == [
        *[f"sign {each}" for each in statements],
        *["sign signature"] * 3,
        *["sign signature for cosign 2 and Podman"] * 3,
        *[f"sign {each} as an attestation for cosign 2 and Podman" for each in statements],
        "read back and verify",
        "tag 1",
    ]
    assert tags(server, "planned") == {}


def test_ended_before_each_change(
    server: Server, single: Release, key: SigningKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At no moment does a tag name an incomplete or unsigned image; a second run completes it.

    One repository goes through all of it: repeatedly started and ended one to three changes later, so that
    the ends lie between all kinds of changes.
    """
    reference = at(server, "ended:1")
    ends = 0
    while True:
        with monkeypatch.context() as patched:
            Watch(patched, end_before=10 + ends if ends < 3 else (3, 2, 4, 2)[ends % 4])
            try:
                done = bring(reference, single, key)
            except Ended:
                ends += 1
            else:
                break
        if tags(server, "ended"):
            found = checked(reference, key, tmp_path / str(ends))
            assert {finding.verdict for finding in found} == {Verdict.PASS}
        assert ends < 100
    assert ends > 12, "it was ended in every phase"
    assert done.digest == single.root.digest
    assert tags(server, "ended") == {"1": single.root.digest}
    assert {each.verdict for each in checked(reference, key, tmp_path / "end")} == {Verdict.PASS}


def test_a_tag_stays_while_its_successor_is_not_whole(
    small: World,
    of_one: dict[str, BuiltImage],
    server: Server,
    key: SigningKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = released(small, of_one, "base"), released(small, of_one)
    bring(at(server, "moving"), first, key)
    with open_repository(at(server, "moving"), RegistrySettings(), push=True) as repository:
        plan = make_plan(repository, second, key.verifier, ["1"])
    assert list(plan.describe())[-1].endswith(f"tag 1, which names {first.root.digest}")
    count = 0
    while True:
        with monkeypatch.context() as patched:
            Watch(patched, end_before=8)
            try:
                bring(at(server, "moving"), second, key)
            except Ended:
                count += 1
                assert tags(server, "moving") == {"1": first.root.digest}
            else:
                break
    assert count > 3
    assert tags(server, "moving") == {"1": second.root.digest}


KILLED = """\
import os, signal, sys
from sandwright.cli import main
from sandwright.registry.client import RegistryClient
original, count = RegistryClient.send, 0
def send(client, request):
    global count
    if request.method in {writes!r}:
        count += 1
        if count == {number}:
            os.kill(os.getpid(), signal.SIGKILL)
    return original(client, request)
RegistryClient.send = send
sys.argv = ["sandwright", *{words!r}]
main()
"""


def test_killed(
    small: World, of_one: dict[str, BuiltImage], single: Release, server: Server, tmp_path: Path
) -> None:
    """SIGKILL ends the program while it sends documents; another run completes the publication."""
    write_report(report_of(of_one), small.output)
    own, _ = write_key(tmp_path)
    words = ["publish", "app", f"{server.host}/killed", "--key", str(own), "--images", str(small.images)]
    words += ["--output", str(small.output), "--matrix", "none"]
    script = KILLED.format(writes=WRITES, number=22, words=words)
    ended = process.run(sys.executable, "-c", script, timeout=120, check=False)
    assert ended.status == -signal.SIGKILL, ended.stderr
    assert tags(server, "killed/app") == {}
    reference, key = at(server, "killed/app:1"), load_key(str(own), environ={})
    done = bring(reference, single, key)
    assert (done.tagged, 0 < len(done.sent) < 7 + 5 + 3 + 2 * 3) == (("1",), True), "a part was there"
    assert {each.verdict for each in checked(reference, key, tmp_path / "check")} == {Verdict.PASS}


def lose(server: Server, digest: str) -> None:
    server.blob(digest).unlink()


@pytest.fixture(scope="module")
def published(server: Server, single: Release, key: SigningKey) -> str:
    """A repository with the published release."""
    bring(at(server, "published"), single, key)
    return "published"


@pytest.mark.parametrize("what", ["layer", "SBOM", "signature", "list"])
def test_what_the_registry_lost_is_brought_again(  # noqa: PLR0917 - fixtures
    server: Server, published: str, single: Release, key: SigningKey, tmp_path: Path, what: str
) -> None:
    server.copy(published, f"lost/{what.lower()}")
    reference = at(server, f"lost/{what.lower()}:1")
    lost = _part(reference, single, what)
    kept = server.blob(lost).read_bytes()
    lose(server, lost)
    try:
        found = checked(reference, key, tmp_path / "before")
        assert Verdict.FAIL in {finding.verdict for finding in found}
        bring(reference, single, key)
        assert {each.verdict for each in checked(reference, key, tmp_path / "after")} == {Verdict.PASS}
    finally:
        server.blob(lost).parent.mkdir(exist_ok=True)
        server.blob(lost).write_bytes(kept)  # other repositories share it


def _part(reference: Reference, release: Release, what: str) -> str:
    """The digest of a published object."""
    if what == "layer":
        return release.image.graph.nodes[0].blobs[1].digest
    with open_repository(reference, RegistrySettings()) as repository:
        if what == "list":
            return repository.manifest(fallback_tag(release.root.digest)).digest
        kind = BUNDLE if what == "signature" else "application/spdx+json"
        subject = next(iter(release.manifests.values())).digest
        found = next(
            each
            for each in referrers(repository, subject, artifact_type=kind)
            if each.annotations.get(PREDICATE, SIGNATURE) == SIGNATURE
        )
        return _layer(repository, found.descriptor.digest)


def _layer(repository: Repository, manifest: str) -> str:
    document: dict[str, Any] = json.loads(repository.manifest(manifest).content)
    return str(document["layers"][0]["digest"])
