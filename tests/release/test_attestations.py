"""Attestation manifests in the index: written as by BuildKit, verified, and never used as a platform."""

from __future__ import annotations

import io
import json
import os
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sandwright import process
from sandwright.errors import UsageError
from sandwright.image.build import BuiltImage
from sandwright.image.cache import Cache
from sandwright.image.remote import PushSource, open_layout, pull_layout
from sandwright.registry.graph import ImageGraph, read_node, sha256_descriptor
from sandwright.registry.reference import Reference, parse_reference
from sandwright.registry.repository import RawManifest, open_repository
from sandwright.registry.settings import RegistrySettings
from sandwright.release.attestations import without_attestations
from sandwright.release.check import RebuildOptions, check_image
from sandwright.release.publish import make_plan, publish
from sandwright.release.signing import SigningKey
from sandwright.release.statement import InTotoStatement, encode_statement
from sandwright.release.subject import Release
from sandwright.rootfs.descriptor import Descriptor, canonical
from sandwright.rootfs.images.source import list_images, open_image
from sandwright.verify.verdict import ProbeFinding, Verdict
from support import gotools
from support.registryserver import Server
from support.releases import released, supply
from support.smallworld import World
from support.thorough import THOROUGH

pytestmark = [pytest.mark.needs("docker-registry"), pytest.mark.timeout(300)]

SPDX, SLSA = "https://spdx.dev/Document", "https://slsa.dev/provenance/v1"
KIND, SUBJECT = "vnd.docker.reference.type", "vnd.docker.reference.digest"


@pytest.fixture(scope="module")
def release(world: World, built: dict[str, BuiltImage]) -> Release:
    return released(world, built, attestations=True)


@pytest.fixture
def reference(server: Server) -> Reference:
    return parse_reference(f"{server.host}/own-{uuid.uuid4().hex[:12]}/app:1")


def bring(reference: Reference, release: Release, key: SigningKey) -> None:
    with open_repository(reference, RegistrySettings(), push=True) as repository:
        publish(repository, make_plan(repository, release, key.verifier, ["1"]), key)


def check(
    reference: Reference, key: SigningKey, scratch: Path, again: RebuildOptions | None = None
) -> dict[str, ProbeFinding]:
    scratch.mkdir()
    with open_repository(reference, RegistrySettings()) as repository:
        found = list(check_image(repository, "1", key.verifier, scratch, again=again))
    return {each.check: each for each in found}


def test_they_are_as_buildkit_has_them(release: Release, built: dict[str, BuiltImage]) -> None:
    root = json.loads(release.image.graph.root.content)
    assert release.root == release.image.graph.root.descriptor
    platforms = {each.digest for each in release.manifests.values()}
    rows = [each for each in root["manifests"] if each["digest"] not in platforms]
    assert [each["platform"] for each in rows] == [{"architecture": "unknown", "os": "unknown"}] * 2
    assert [each["annotations"] for each in rows] == [
        {KIND: "attestation-manifest", SUBJECT: each.digest} for each in release.manifests.values()
    ]
    for row in rows:
        (node,) = (each for each in release.image.graph.nodes if each.descriptor.digest == row["digest"])
        config, *layers = node.blobs
        assert json.loads(_content(release.image, config))["rootfs"]["diff_ids"] == [
            each.digest for each in layers
        ]
        assert [each.annotations["in-toto.io/predicate-type"] for each in layers] == [SPDX, SLSA]
        for layer in layers:
            assert layer.media_type == "application/vnd.in-toto+json"
            statement = json.loads(_content(release.image, layer))
            assert statement["predicateType"] == layer.annotations["in-toto.io/predicate-type"]
            (subject,) = statement["subject"]
            assert f"sha256:{subject['digest']['sha256']}" == row["annotations"][SUBJECT]
    plain = without_attestations(release.image.graph.root.content, "index")
    assert sha256_descriptor("", plain).digest == built["app"].digest
    assert without_attestations(plain, "index") == plain


def _content(image: PushSource, blob: Descriptor) -> bytes:
    with image.open_blob(blob) as file:
        return file.read()


def test_all_is_well_and_made_again(
    world: World, release: Release, key: SigningKey, reference: Reference, tmp_path: Path
) -> None:
    bring(reference, release, key)
    found = check(reference, key, tmp_path / "c", RebuildOptions(supply(world)))
    assert {each.verdict for each in found.values()} == {Verdict.PASS}, found
    assert "for linux/amd64, linux/arm64, " in found["image"].detail
    plain = without_attestations(release.image.graph.root.content, "index")
    assert found["rebuild"].detail == f"made again, it is {sha256_descriptor('', plain).digest}"
    with open_repository(reference, RegistrySettings(), push=True) as repository:
        assert make_plan(repository, release, key.verifier, ["1"]).is_empty


def test_they_are_no_platforms(
    release: Release, key: SigningKey, reference: Reference, tmp_path: Path
) -> None:
    bring(reference, release, key)
    target, cache = tmp_path / "layout", Cache(tmp_path / "cache")
    assert pull_layout(reference, target, settings=RegistrySettings(), cache=cache) == release.root.digest
    assert [str(each.platform) for each in list_images(target)] == ["linux/amd64", "linux/arm64"]
    assert open_image(target, platform="linux/arm64").digest == release.manifests["linux/arm64"].digest
    assert open_layout(target).graph.root.descriptor.digest == release.root.digest
    only = tmp_path / "only"
    pull_layout(reference, only, platforms=["linux/amd64"], settings=RegistrySettings(), cache=cache)
    assert open_image(only).digest == release.manifests["linux/amd64"].digest
    for platform in ("unknown/unknown", "linux/s390x"):
        with pytest.raises(UsageError, match=r"only for linux/amd64, linux/arm64$"):
            pull_layout(
                reference,
                tmp_path / "no",
                platforms=[platform],
                settings=RegistrySettings(),
                cache=cache,
            )


Change = Callable[[dict[str, Any], dict[str, Any], dict[str, bytes]], None]
"""Changes the index's row of an attestation, its manifest, and the added blobs, by digest."""


def _statement(blobs: dict[str, bytes], digest: str, kind: str = SPDX) -> dict[str, Any]:
    content = encode_statement(InTotoStatement(kind, {digest: "x"}, {}))
    layer = sha256_descriptor("application/vnd.in-toto+json", content)
    blobs[layer.digest] = content
    return layer.document(annotations={"in-toto.io/predicate-type": SPDX})


def _of_no_platform(row: dict[str, Any], manifest: dict[str, Any], blobs: dict[str, bytes]) -> None:
    row["annotations"][SUBJECT] = f"sha256:{'0' * 64}"
    manifest["layers"] = [_statement(blobs, f"sha256:{'0' * 64}")]


def _about_another(row: dict[str, Any], manifest: dict[str, Any], blobs: dict[str, bytes]) -> None:
    manifest["layers"] = [_statement(blobs, f"sha256:{'0' * 64}")]


def _of_another_kind(row: dict[str, Any], manifest: dict[str, Any], blobs: dict[str, bytes]) -> None:
    manifest["layers"] = [_statement(blobs, row["annotations"][SUBJECT], SLSA)]


def _with_a_layer(row: dict[str, Any], manifest: dict[str, Any], blobs: dict[str, bytes]) -> None:
    manifest["layers"][0]["mediaType"] = "application/vnd.oci.image.layer.v1.tar"


def _not_called_one(row: dict[str, Any], manifest: dict[str, Any], blobs: dict[str, bytes]) -> None:
    del row["annotations"][KIND]


def _empty(row: dict[str, Any], manifest: dict[str, Any], blobs: dict[str, bytes]) -> None:
    manifest["layers"] = []


def _for_a_platform(row: dict[str, Any], manifest: dict[str, Any], blobs: dict[str, bytes]) -> None:
    row["platform"] = {"os": "linux", "architecture": "s390x"}


@pytest.mark.parametrize(
    "case",
    [
        (_of_no_platform, "of no platform, or twice"),
        (_about_another, "it says something else than it is listed for"),
        (_of_another_kind, "it says something else than it is listed for"),
        (_with_a_layer, "is no statement"),
        (_not_called_one, "the index does not call it an attestation-manifest"),
        (_empty, "or it is empty"),
        (_for_a_platform, "the signed subject is not"),
    ],
)
def test_what_is_signed_and_wrong(
    release: Release, key: SigningKey, reference: Reference, tmp_path: Path, case: tuple[Change, str]
) -> None:
    """The signer was mistaken, or lied: without a signature, an index fails earlier."""
    change, said = case
    bring(reference, _about(release, _changed(release.image, change)), key)
    found = check(reference, key, tmp_path / "c")
    assert found["signature"].verdict is Verdict.PASS, found
    assert (found["image"].verdict, said in found["image"].detail) == (Verdict.FAIL, True), found["image"]


def _changed(image: PushSource, change: Change) -> PushSource:
    """An image with a replaced last attestation."""
    *nodes, last, root = image.graph.nodes
    index, manifest, blobs = json.loads(root.content), json.loads(last.content), dict[str, bytes]()
    row = index["manifests"][-1]
    change(row, manifest, blobs)
    content = canonical(manifest)
    node = read_node(sha256_descriptor(last.descriptor.media_type, content), content, "manifest")
    row |= {"digest": node.descriptor.digest, "size": node.descriptor.size}
    whole = canonical(index)
    new = read_node(sha256_descriptor(root.descriptor.media_type, whole), whole, "index")

    def open_blob(blob: Descriptor) -> BinaryIO:
        return io.BytesIO(blobs[blob.digest]) if blob.digest in blobs else image.open_blob(blob)

    return replace(image, graph=ImageGraph((*nodes, node, new)), open_blob=open_blob)


def _about(release: Release, image: PushSource) -> Release:
    """The release of another index: its digest is replaced in all signed documents."""
    root, before = image.graph.root.descriptor, release.root

    def moved(subject: Descriptor) -> Descriptor:
        return root if subject == before else subject

    old, new = (each.digest.removeprefix("sha256:").encode() for each in (before, root))
    return replace(
        release,
        image=image,
        root=root,
        documents=tuple(replace(each, subject=moved(each.subject)) for each in release.documents),
        claims=tuple(
            replace(each, payload=each.payload.replace(old, new), subjects=tuple(map(moved, each.subjects)))
            for each in release.claims
        ),
    )


def test_an_attestation_that_was_changed_in_the_registry(
    release: Release, key: SigningKey, reference: Reference, tmp_path: Path
) -> None:
    bring(reference, release, key)
    with open_repository(reference, RegistrySettings(), push=True) as repository:
        image = _changed(release.image, _about_another)
        for node in image.graph.nodes[-2:]:
            for blob in node.blobs:
                repository.push_blob(blob, lambda blob=blob: image.open_blob(blob))  # type: ignore[misc]
            repository.put_manifest(
                RawManifest(node.descriptor.media_type, node.descriptor.digest, node.content), "1"
            )
    found = check(reference, key, tmp_path / "c")
    assert found["signature"].verdict is Verdict.FAIL


@pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time to build buildx")
@pytest.mark.timeout(3000)
def test_buildx_shows_them(
    world: World, release: Release, key: SigningKey, reference: Reference, tmp_path: Path
) -> None:
    """`docker buildx imagetools inspect` shows each platform's packages and provenance, without a daemon."""
    plain = replace(reference, repository=f"plain/{reference.repository}")
    bring(reference, release, key)
    bring(plain, released(world, world.build()), key)
    for field, kind, name in (("SBOM", "SPDX", "SPDXID"), ("Provenance", "SLSA", "buildDefinition")):
        shown = _inspected(tmp_path, str(reference), f"{{{{json .{field}}}}}")
        assert set(shown) == set(release.manifests), field
        assert all(name in each[kind] for each in shown.values()), field
        assert _inspected(tmp_path, str(plain), f"{{{{json .{field}}}}}") == {}, "none was published"
    assert set(_inspected(tmp_path, str(reference), "{{json .Image}}")) == set(release.manifests)


def _inspected(home: Path, image: str, template: str) -> dict[str, Any]:
    settings = {**os.environ, "HOME": str(home), "BUILDX_CONFIG": str(home / "buildx")}
    words = ("imagetools", "inspect", image, "--format", template)
    said = process.run(gotools.require("buildx"), *words, env=settings, timeout=60)
    return dict(json.loads(said.text))
