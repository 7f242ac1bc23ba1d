"""Checking published images: changed, missing and foreign content is refused.

Tests of release/attach.py.
Tests of release/check.py.
Tests of release/pulled.py.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import io
import json
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sandwright.errors import SandwrightError
from sandwright.image.build import BuiltImage
from sandwright.image.existing import read_layout
from sandwright.registry.failure import NotFound
from sandwright.registry.graph import sha256_descriptor
from sandwright.registry.push import push
from sandwright.registry.reference import Reference, parse_reference
from sandwright.registry.referrer import fallback_tag, push_referrer, referrers
from sandwright.registry.repository import RawManifest, Repository, open_repository
from sandwright.registry.retries import RetryPolicy
from sandwright.registry.settings import RegistrySettings
from sandwright.release.bundle import BUNDLE
from sandwright.release.check import RebuildOptions, check_image
from sandwright.release.publish import make_plan, publish
from sandwright.release.signing import SigningKey, load_verifier
from sandwright.release.statement import PROVENANCE, SIGNATURE
from sandwright.release.subject import Release
from sandwright.rootfs.descriptor import Descriptor
from sandwright.verify.verdict import ProbeFinding, Verdict
from support.registryserver import Server
from support.releases import new_key, released, supply
from support.smallworld import World, small_world

pytestmark = [pytest.mark.needs("docker-registry"), pytest.mark.timeout(300)]

INDEX = "application/vnd.oci.image.index.v1+json"
CHECKS = ["signature", "image", "provenance", "documents", "sources", "SBOM", "evidence"]
IMPATIENT = RegistrySettings(patience=RetryPolicy(attempts=1))


@pytest.fixture(scope="module")
def built(world: World) -> dict[str, BuiltImage]:
    return world.build(platforms=["linux/amd64"])  # two platforms are for tests of publishing


@dataclass(frozen=True)
class Stage:
    """A release, its key, and a separate repository of the test in which it is published."""

    server: Server
    name: str
    release: Release
    key: SigningKey
    scratch: Path

    @property
    def reference(self) -> Reference:
        return parse_reference(f"{self.server.host}/{self.name}:1")

    def writing(self) -> AbstractContextManager[Repository]:
        return open_repository(self.reference, RegistrySettings(), push=True)

    def bring(self, release: Release | None = None) -> None:
        with self.writing() as repository:
            plan = make_plan(repository, release or self.release, self.key.verifier, ["1"])
            publish(repository, plan, self.key)

    def check(
        self, key: SigningKey | None = None, again: RebuildOptions | None = None, what: str = "1"
    ) -> list[ProbeFinding]:
        scratch = self.scratch / uuid.uuid4().hex
        scratch.mkdir(parents=True)
        verifier = (key or self.key).verifier
        with open_repository(self.reference, IMPATIENT) as repository:
            return list(check_image(repository, what, verifier, scratch, again=again))

    def failed(self, key: SigningKey | None = None, again: RebuildOptions | None = None) -> tuple[str, str]:
        """The one check that fails, with its message; those after it are skipped."""
        findings = self.check(key, again)
        (found,) = (each for each in findings if each.verdict is Verdict.FAIL)
        after = findings[findings.index(found) + 1 :]
        assert {each.verdict for each in after} <= {Verdict.SKIPPED}
        return found.check, found.detail


@pytest.fixture
def empty(server: Server, release: Release, key: SigningKey, tmp_path: Path) -> Stage:
    """An empty repository."""
    return Stage(server, f"own-{uuid.uuid4().hex[:12]}/app", release, key, tmp_path / "scratch")


@pytest.fixture(scope="module")
def template(
    server: Server, release: Release, key: SigningKey, tmp_path_factory: pytest.TempPathFactory
) -> Stage:
    """The release, published."""
    stage = Stage(server, "template/app", release, key, tmp_path_factory.mktemp("template"))
    stage.bring()
    return stage


@pytest.fixture
def stage(empty: Stage, template: Stage) -> Stage:
    """A copy of the published release."""
    empty.server.copy(template.name, empty.name)
    return empty


def test_all_is_well_and_made_again(world: World, stage: Stage) -> None:
    found = stage.check(again=RebuildOptions(supply(world)))
    assert [each.check for each in found] == [*CHECKS, "rebuild"]
    assert {each.verdict for each in found} == {Verdict.PASS}
    assert found[-1].detail == f"made again, it is {stage.release.root.digest}"
    assert found[5].detail.startswith("26 files of linux/amd64, as cyclonedx and spdx list them")


VEX = """\
schema: 1
author: Team
updated: 2026-11-{day}
statements:
  - vulnerability: CVE-2026-{day}
    products: [pkg:deb/debian/libthing1]
    status: {status}
    expires: 2099-12-31
"""


def test_statements_about_vulnerabilities_are_named(
    server: Server, key: SigningKey, tmp_path: Path, stage: Stage
) -> None:
    """These are the newest publication's statements, and none that another key has signed."""
    assert "VEX" not in _evidence_detail(stage)
    world = small_world(tmp_path / "world")
    built = world.build(platforms=["linux/amd64"])
    for day, status, signer in (
        (28, "under_investigation", key),
        (29, "fixed", key),
        (30, "affected", new_key(tmp_path / "other")),
    ):
        text = VEX.format(day=day, status=status)
        action = "    action: Update.\n" if status == "affected" else ""
        (world.images / "app/vex.yaml").write_text(text + action)
        replace(stage, key=signer).bring(released(world, built))
    assert _evidence_detail(stage).endswith("; VEX linux/amd64: CVE-2026-29 fixed")


def _evidence_detail(stage: Stage) -> str:
    (found,) = (each for each in stage.check() if each.check == "evidence")
    assert found.verdict is Verdict.PASS
    return found.detail


def test_made_again_for_a_platform_that_it_is_not_for(world: World, stage: Stage) -> None:
    """Otherwise no image would be made, and nothing would be compared."""
    check, said = stage.failed(again=RebuildOptions(supply(world), ["linux/none"]))
    assert (check, "it was not made for linux/none, only for linux/amd64" in said) == ("rebuild", True)


def test_the_manifest_of_one_platform(stage: Stage) -> None:
    """The whole image is checked for one platform's digest: the signature names it."""
    found = stage.check(what=stage.release.manifests["linux/amd64"].digest)
    assert {each.verdict for each in found} == {Verdict.PASS}
    assert found[0].detail.startswith(stage.release.root.digest)


def test_one_signed_image_in_the_place_of_another(stage: Stage) -> None:
    """A writer to the registry copies `app` with all its attachments, and calls it `other`."""
    other = replace(stage, name=stage.name.replace("/app", "/other"))
    stage.server.copy(stage.name, other.name)
    what, detail = other.failed()
    assert what == "signature"
    assert f"{stage.release.root.digest} is signed as image app, and not as other" in detail
    other.scratch.mkdir(exist_ok=True)
    with open_repository(other.reference, IMPATIENT) as repository:
        meant = list(check_image(repository, "1", stage.key.verifier, other.scratch / "meant", name="app"))
    assert {each.verdict for each in meant} == {Verdict.PASS}


def test_every_flipped_byte_is_found(stage: Stage) -> None:
    """The flipped byte is in any blob of the registry: layers, configs, manifests, documents, lists."""
    blobs = sorted(_own_blobs(stage))
    assert len(blobs) == 7 + 5 + 5 + 11 + 1 + 2, "image, documents, bundles, manifests, their config, lists"
    for number, digest in enumerate(blobs):
        path = stage.server.blob(digest)
        whole = path.read_bytes()
        changed = bytearray(whole)
        changed[(0, len(whole) // 3, len(whole) // 2, len(whole) - 1)[number % 4]] ^= 0x01
        path.write_bytes(changed)
        try:
            assert _is_found(stage), (digest, whole[:60])
        finally:
            path.write_bytes(whole)
    assert {each.verdict for each in stage.check()} == {Verdict.PASS}


def _is_found(stage: Stage) -> bool:
    try:
        return Verdict.FAIL in {each.verdict for each in stage.check()}
    except SandwrightError as error:  # the registry itself noticed, or the tag leads nowhere
        return stage.server.host in str(error)


def _own_blobs(stage: Stage) -> set[str]:
    """The blobs of a repository by the registry's own links, without those that only other tools use."""
    own = stage.server.storage / "docker/registry/v2/repositories" / stage.name
    links = [*own.glob("_layers/sha256/*/link"), *own.glob("_manifests/revisions/sha256/*/link")]
    now = {path.read_text() for path in links}
    old = {f"sha256:{path.parent.name}" for path in own.glob("_manifests/tags/*/index/sha256/*/link")}
    current = {path.read_text() for path in own.glob("_manifests/tags/*/current/link")}
    # Lists that were replaced by longer ones have no reader.
    return now - (old - current) - _for_others(stage, own)


def _for_others(stage: Stage, own: Path) -> set[str]:
    """Signatures at cosign 2's tags, which `verify-image` ignores; also replaced ones."""
    links = [link for kind in ("sig", "att") for link in own.glob(f"_manifests/tags/*.{kind}/**/link")]
    found = {path.read_text() for path in links}
    for digest in sorted(found):
        document = json.loads(stage.server.blob(digest).read_text())
        found |= {each["digest"] for each in (document["config"], *document["layers"])}
    return found


def test_another_key(stage: Stage, tmp_path: Path) -> None:
    other = new_key(tmp_path, "other", kind="p256")
    what, detail = stage.failed(other)
    assert what == "signature"
    assert f"{stage.release.root.digest}: there is no signature by {other.verifier}" in detail
    assert f"not signed by {other.verifier}, but by {stage.key.verifier.fingerprint[:16]}" in detail


def test_the_public_key_is_all_it_takes(stage: Stage) -> None:
    verifier = load_verifier(str(Path(stage.key.verifier.source).with_suffix(".pub")))
    stage.scratch.mkdir()
    with open_repository(stage.reference, RegistrySettings()) as repository:
        found = list(check_image(repository, "1", verifier, stage.scratch))
    assert {each.verdict for each in found} == {Verdict.PASS}


def test_an_image_that_nobody_signed(empty: Stage) -> None:
    with empty.writing() as repository:
        push(repository, empty.release.image.graph, empty.release.image.open_blob, tags=["1"])
    what, detail = empty.failed()
    assert (what, "there is no signature by" in detail) == ("signature", True)
    assert "among 0 attached to it" in detail


def test_a_bundle_of_a_stranger_is_not_read_to_its_end(empty: Stage) -> None:
    """Its brackets would be six million lists; a manifest with a large config is no bundle."""
    with empty.writing() as repository:
        push(repository, empty.release.image.graph, empty.release.image.open_blob, tags=["1"])
        root = empty.release.root
        push_referrer(repository, root, BUNDLE, b"[" + b"[]," * (6 << 20) + b"0]", media_type=BUNDLE)
        _, detail = empty.failed()
        assert "has 18874371 bytes; at most 16777216 are read" in detail
        _attach_with_a_config(repository, root, bytes(2 << 20))
        _, detail = empty.failed()
        assert detail.count("are read") == 1, "the other one is not looked at"


def _attach_with_a_config(repository: Repository, subject: Descriptor, config: bytes) -> None:
    """Attach the entry as a bundle, with another config."""
    made = sha256_descriptor("application/vnd.oci.empty.v1+json", config)
    repository.push_blob(made, lambda: io.BytesIO(config))
    (first, *_) = referrers(repository, subject.digest, artifact_type=BUNDLE)
    document = json.loads(repository.manifest(first.descriptor.digest).content)
    _list(repository, subject.digest, {**document, "config": made.document()})


def test_no_such_image(empty: Stage) -> None:
    with pytest.raises(NotFound, match="manifest 1: 404"):
        empty.check()


def _attach_again(repository: Repository, stage: Stage, key: SigningKey, kind: str, **changes: Any) -> None:
    """Attach one of our statements again, changed and signed."""
    (claim,) = (each for each in stage.release.claims if each.predicate_type == kind)
    payload = json.dumps({**json.loads(claim.payload), **changes}).encode()
    for subject in claim.subjects:
        push_referrer(repository, subject, BUNDLE, key.sign(payload), media_type=BUNDLE)


def _forget(repository: Repository, digest: str, keep: Callable[[Any], bool]) -> None:
    """Take entries from the list that stands in for the referrers API."""
    tag = fallback_tag(digest)
    document = json.loads(repository.manifest(tag).content)
    document["manifests"] = [each for each in document["manifests"] if keep(each)]
    raw = json.dumps(document).encode()
    repository.put_manifest(RawManifest(INDEX, sha256_descriptor(INDEX, raw).digest, raw), tag)


def _without(repository: Repository, digest: str, kind: str) -> None:
    _forget(repository, digest, lambda each: each["artifactType"] != kind)


def _is_not(digest: str, each: Any) -> bool:
    return bool(each["digest"] != digest)


def _says(each: Any, predicate: str) -> bool:
    return bool((each.get("annotations") or {}).get("dev.sigstore.bundle.predicateType") == predicate)


@pytest.mark.parametrize(
    ("kind", "check", "said"),
    [
        ("application/vnd.sandwright.lock.v1+json", "provenance", "lock sha256:"),
        (BUNDLE, "signature", "there is no signature by"),
    ],
)
def test_what_is_taken_away_from_the_image(stage: Stage, kind: str, check: str, said: str) -> None:
    with stage.writing() as repository:
        _without(repository, stage.release.root.digest, kind)
    what, detail = stage.failed()
    assert (what, said in detail) == (check, True)


@pytest.mark.parametrize("kind", ["application/spdx+json", BUNDLE])
def test_what_is_taken_away_from_a_platform(stage: Stage, kind: str) -> None:
    digest = stage.release.manifests["linux/amd64"].digest
    with stage.writing() as repository:
        _without(repository, digest, kind)
    what, detail = stage.failed()
    assert what == ("image" if kind == BUNDLE else "provenance")
    assert digest in detail


def test_the_provenance_is_gone(stage: Stage) -> None:
    with stage.writing() as repository:
        _forget(repository, stage.release.root.digest, lambda each: not _says(each, PROVENANCE))
    what, detail = stage.failed()
    assert (what, "there is no signed provenance by" in detail) == ("provenance", True)


def test_a_changed_statement_has_no_signature(stage: Stage) -> None:
    """The payload is changed, its signature stays, and each digest is correct."""
    with stage.writing() as repository:
        for subject in (stage.release.root, *stage.release.manifests.values()):
            for each in referrers(repository, subject.digest, artifact_type=BUNDLE):
                layer = json.loads(repository.manifest(each.descriptor.digest).content)["layers"][0]
                bundle = json.loads(stage.server.blob(layer["digest"]).read_bytes())
                payload = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
                payload["subject"][0]["name"] = "another"
                bundle["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
                push_referrer(repository, subject, BUNDLE, json.dumps(bundle).encode(), media_type=BUNDLE)
                _forget(repository, subject.digest, functools.partial(_is_not, each.descriptor.digest))
    what, detail = stage.failed()
    assert (what, "not signed by" in detail) == ("signature", True)


def test_an_sbom_that_is_not_the_signed_one(stage: Stage) -> None:
    (document,) = (each for each in stage.release.documents if each.name == "SBOM cyclonedx linux/amd64")
    changed = json.loads(document.content)
    _drop_file(changed)
    kind, content = document.artifact_type, json.dumps(changed).encode()
    with stage.writing() as repository:
        _without(repository, document.subject.digest, kind)
        push_referrer(repository, document.subject, kind, content, media_type=kind)
    what, detail = stage.failed()
    assert what == "provenance"
    assert "SBOM cyclonedx linux/amd64 sha256:" in detail
    assert f"not attached to {document.subject.digest}" in detail


Change = Callable[[dict[str, Any]], None]


def _sign_changed(stage: Stage, document: str, change: Change) -> None:
    """Publish with one document changed before the signature: the signer was mistaken, or lied."""
    before = next(each for each in stage.release.documents if each.name == document)
    data = json.loads(before.content)
    change(data)
    content = json.dumps(data).encode()
    documents = [
        replace(each, content=content) if each is before else each for each in stage.release.documents
    ]
    claims = []
    for claim in stage.release.claims:
        said = json.loads(claim.payload)
        for each in said["predicate"].get("runDetails", {}).get("byproducts", ()):
            if each["name"] == document:
                each["digest"] = {"sha256": hashlib.sha256(content).hexdigest()}
        payload = json.dumps(said).encode() if claim.predicate_type == PROVENANCE else claim.payload
        claims.append(replace(claim, payload=payload))
    stage.bring(replace(stage.release, documents=tuple(documents), claims=tuple(claims)))


def _components(data: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for each in data["components"]:
        found += [each, *each.get("components", [])]
    return found


def _drop_file(data: dict[str, Any]) -> None:
    data["components"] = [each for each in data["components"] if each["name"] != "/etc/app.conf"]


def _add_file(data: dict[str, Any]) -> None:
    hashes = [{"alg": "SHA-256", "content": "0" * 64}]
    data["components"].append({"type": "file", "name": "/etc/more", "hashes": hashes})


def _other_hash(data: dict[str, Any]) -> None:
    (entry,) = (each for each in _components(data) if each["name"] == "/usr/bin/thing")
    entry["hashes"][0]["content"] = "0" * 64


def _other_version(data: dict[str, Any]) -> None:
    (entry,) = (each for each in data["components"] if each["name"] == "libthing1")
    entry["version"] = "0.9"


def _other_subject(data: dict[str, Any]) -> None:
    data["metadata"]["component"]["version"] = f"sha256:{'0' * 64}"


def _other_spdx_hash(data: dict[str, Any]) -> None:
    (entry,) = (each for each in data["files"] if each["fileName"] == "./etc/passwd")
    entry["checksums"][1]["checksumValue"] = "0" * 64


def _red(data: dict[str, Any]) -> None:
    data["rows"][0]["verdict"] = "fail"


def _of_another(data: dict[str, Any]) -> None:
    data["rows"][0]["digest"] = f"sha256:{'0' * 64}"


def _other_package(data: dict[str, Any]) -> None:
    data["platforms"]["linux/amd64"][0]["sha256"] = "0" * 64


def _other_definition(data: dict[str, Any]) -> None:
    data["files"]["app/files/run"] = base64.b64encode(b"#!other\n").decode()


def _climbing(data: dict[str, Any]) -> None:
    data["files"]["app/../../run"] = ""


CYCLONEDX, SPDX = "SBOM cyclonedx linux/amd64", "SBOM spdx linux/amd64"


@pytest.mark.parametrize(
    ("document", "change", "check", "said"),
    [
        (CYCLONEDX, _drop_file, "SBOM", "/etc/app.conf: in the image, and not in the SBOM"),
        (CYCLONEDX, _add_file, "SBOM", "/etc/more: in the SBOM, and not in the image"),
        (CYCLONEDX, _other_hash, "SBOM", f"/usr/bin/thing: sha256: {'0' * 64} in the SBOM, "),
        (CYCLONEDX, _other_version, "SBOM", "package libthing1 0.9 "),
        (CYCLONEDX, _other_subject, "SBOM", f"the SBOM is of sha256:{'0' * 64}, the image is sha256:"),
        (SPDX, _other_spdx_hash, "SBOM", f"/etc/passwd: sha256: {'0' * 64} in the SBOM"),
        ("smoke run", _red, "evidence", "not green: 1 of 1 rows, 0 passed"),
        ("smoke run", _of_another, "evidence", f"it is about sha256:{'0' * 64}, which is no part"),
        ("lock", _other_package, "sources", "base-files 12 (amd64): it is sha256:0000"),
        ("sources", _other_definition, "sources", "app/files/run: it is sha256:"),
        ("sources", _climbing, "sources", "'app/../../run' cannot be the path of a source"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_what_is_signed_and_wrong(stage: Stage, document: str, change: Change, check: str, said: str) -> None:
    _sign_changed(stage, document, change)
    what, detail = stage.failed()
    assert (what, said in detail) == (check, True), detail
    assert ("sources" if document == "lock" else document) in detail


@pytest.mark.parametrize("kind", [SIGNATURE, PROVENANCE])
def test_a_statement_about_another_image(stage: Stage, kind: str) -> None:
    """It is signed by the key and attached to this image, but it is about another one."""
    with stage.writing() as repository:
        for subject in (stage.release.root, *stage.release.manifests.values()):
            _forget(repository, subject.digest, lambda each: not _says(each, kind))
        other = [{"name": "x", "digest": {"sha256": "0" * 64}}]
        _attach_again(repository, stage, stage.key, kind, subject=other)
    what, detail = stage.failed()
    assert what == {SIGNATURE: "signature", PROVENANCE: "provenance"}[kind]
    assert f" by {stage.key.verifier}" in detail


def test_an_index_with_a_manifest_less(stage: Stage) -> None:
    """The signature of an index does not cover another index, even if all its manifests are signed."""
    with stage.writing() as repository:
        document = json.loads(repository.manifest("1").content)
        document["manifests"].pop()
        raw = json.dumps(document).encode()
        fewer = RawManifest(INDEX, sha256_descriptor(INDEX, raw).digest, raw)
        repository.put_manifest(fewer, "1")
        (claim,) = (each for each in stage.release.claims if each.predicate_type == SIGNATURE)
        push_referrer(repository, fewer.descriptor, BUNDLE, stage.key.sign(claim.payload), media_type=BUNDLE)
    what, detail = stage.failed()
    assert (what, f"{fewer.digest}: there is no signature" in detail) == ("signature", True)


def test_what_strangers_attach_changes_nothing(stage: Stage, tmp_path: Path) -> None:
    with stage.writing() as repository:
        for content in (b"{}", b"not JSON", b'{"mediaType": "x"}'):
            push_referrer(repository, stage.release.root, BUNDLE, content, media_type=BUNDLE)
        _attach_again(repository, stage, new_key(tmp_path, "stranger"), PROVENANCE)
        kind = "application/vnd.cyclonedx+json"
        push_referrer(repository, stage.release.root, kind, b"{}", media_type=kind)
        for part in ("config", "layer"):
            _attach_with_a_lie(repository, stage, part)
    assert {each.verdict for each in stage.check()} == {Verdict.PASS}
    stage.bring()


def _attach_with_a_lie(repository: Repository, stage: Stage, part: str) -> None:
    """Attach a bundle with a false size for its config or layer, which the registry accepts."""
    (first, *_) = referrers(repository, stage.release.root.digest, artifact_type=BUNDLE)
    document = json.loads(repository.manifest(first.descriptor.digest).content)
    (document["config"] if part == "config" else document["layers"][0])["size"] += 7
    _list(repository, stage.release.root.digest, document)


def _list(repository: Repository, subject: str, document: dict[str, Any]) -> None:
    """Put a manifest there, first in the list of attachments."""
    raw = json.dumps(document).encode()
    lie = RawManifest(document["mediaType"], sha256_descriptor(document["mediaType"], raw).digest, raw)
    repository.put_manifest(lie)
    tag = fallback_tag(subject)
    listed = json.loads(repository.manifest(tag).content)
    entry = {"mediaType": lie.media_type, "digest": lie.digest, "size": len(raw), "artifactType": BUNDLE}
    index = json.dumps({**listed, "manifests": [entry, *listed["manifests"]]}).encode()
    repository.put_manifest(RawManifest(INDEX, sha256_descriptor(INDEX, index).digest, index), tag)


def test_made_again_it_is_another_image(empty: Stage, tmp_path: Path) -> None:
    """The published image was not built from its sources: a file in a layer has another mode."""
    world = small_world(tmp_path / "world")
    built = world.build(platforms=["linux/amd64"])
    _forge(built["app"])
    forged = replace(empty, release=released(world, {**built, "app": _read_again(built["app"])}))
    forged.bring()
    what, detail = forged.failed(again=RebuildOptions(supply(world)))
    assert what == "rebuild"
    place = "linux/amd64: layer 4: 'etc/app.conf'"
    assert f"made again, it is another image: {place}: mode: 0644 published, 0640 made" in detail


def _forge(built: BuiltImage) -> None:
    """Change a mode in the last layer of the image for amd64, and all digests that depend on it."""
    blobs = built.layout / "blobs/sha256"
    index = json.loads((built.layout / "index.json").read_bytes())
    whole = json.loads(_blob(blobs, index["manifests"][0]))
    entry = whole["manifests"][0]
    manifest = json.loads(_blob(blobs, entry))
    config = json.loads(_blob(blobs, manifest["config"]))
    raw = bytearray(gzip.decompress(_blob(blobs, manifest["layers"][-1])))
    _chmod(raw, b"etc/app.conf", b"0000644")
    config["rootfs"]["diff_ids"][-1] = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    manifest["layers"][-1].update(_put(blobs, gzip.compress(bytes(raw), 1, mtime=0)))
    manifest["config"].update(_put(blobs, _json(config)))
    entry.update(_put(blobs, _json(manifest)))
    index["manifests"][1].update({key: entry[key] for key in ("digest", "size")})
    index["manifests"][0].update(_put(blobs, _json(whole)))
    (built.layout / "index.json").write_bytes(_json(index))


def _read_again(built: BuiltImage) -> BuiltImage:
    existing = read_layout(built.layout)
    return replace(built, digest=existing.whole.digest, images=existing.images)


def _json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _blob(blobs: Path, descriptor: Any) -> bytes:
    return (blobs / str(descriptor["digest"]).removeprefix("sha256:")).read_bytes()


def _put(blobs: Path, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def _chmod(raw: bytearray, name: bytes, mode: bytes) -> None:
    """Change a mode in an archive, in place."""
    at = raw.index(name.ljust(100, b"\0"))
    raw[at + 100 : at + 107] = mode
    raw[at + 148 : at + 156] = b" " * 8
    raw[at + 148 : at + 156] = b"%06o\0 " % sum(raw[at : at + 512])
