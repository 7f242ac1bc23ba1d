"""Statements, provenance and sources: their content, and documents that are refused.

Tests of release/provenance.py.
Tests of release/statement.py.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sandwright.errors import ArchiveRefused
from sandwright.image.lock import load_lock
from sandwright.image.plan import builder_checksum
from sandwright.release import provenance, sources, statement
from sandwright.release.provenance import sha256_digest
from sandwright.release.statement import PROVENANCE, SIGNATURE
from sandwright.release.subject import Release
from support.releases import released
from support.smallworld import EPOCH, World


@pytest.fixture(scope="module")
def release(world: World) -> Release:
    return released(world, world.build())


def said(release: Release, kind: str) -> Mapping[str, Any]:
    (claim,) = (each for each in release.claims if each.predicate_type == kind)
    document: Mapping[str, Any] = json.loads(claim.payload)
    return document


def test_the_signature(release: Release) -> None:
    found = said(release, SIGNATURE)
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == "https://sigstore.dev/cosign/sign/v1"
    assert found["predicate"] == {}
    digests = [release.root.digest, *(each.digest for each in release.manifests.values())]
    assert [f"sha256:{each['digest']['sha256']}" for each in found["subject"]] == digests
    assert [each["name"] for each in found["subject"]] == ["app", "app linux/amd64", "app linux/arm64"]


def test_the_provenance(world: World, release: Release) -> None:
    """The fields are those of SLSA's provenance, version 1."""
    found = said(release, PROVENANCE)
    assert found["predicateType"] == "https://slsa.dev/provenance/v1"
    assert found["subject"] == said(release, SIGNATURE)["subject"]
    definition, details = found["predicate"]["buildDefinition"], found["predicate"]["runDetails"]
    platforms = ["linux/amd64", "linux/arm64"]
    assert definition["externalParameters"] == {"image": "app", "platforms": platforms, "epoch": EPOCH}
    assert details["builder"]["id"] == "urn:sandwright:builder"
    assert details["builder"]["version"] == {"sandwright": "0.1.0", "code": builder_checksum()}
    named = {
        each["name"]: f"sha256:{each['digest']['sha256']}" for each in definition["resolvedDependencies"]
    }
    files = {
        path: sha256_digest((world.images / path).read_bytes())
        for path in ("app/image.yaml", "app/files/run", "base/image.yaml", "base/lock.json")
    }
    lock = load_lock(world.images / "base")
    packages = {str(each): f"sha256:{each.sha256}" for key in platforms for each in lock.packages(key)}
    assert named == {**files, **packages}
    uris = {each.get("uri") for each in definition["resolvedDependencies"]}
    assert "pkg:deb/debian/libthing1@1.0?arch=arm64&distro=debian-bookworm" in uris
    byproducts = {each["name"]: each for each in details["byproducts"]}
    assert byproducts.keys() == {each.name for each in release.documents}
    for document in release.documents:
        assert f"sha256:{byproducts[document.name]['digest']['sha256']}" == sha256_digest(document.content)
        annotated = byproducts[document.name]["annotations"]["dev.sandwright.attached-to"]
        assert annotated == document.subject.digest


def test_nothing_in_them_changes_from_run_to_run(world: World, release: Release) -> None:
    again = released(world, world.build())
    assert [each.payload for each in again.claims] == [each.payload for each in release.claims]
    assert [each.content for each in again.documents] == [each.content for each in release.documents]


def test_who_builds(world: World) -> None:
    other = released(world, world.build(), builder="https://ci.example/builder")
    found = said(other, PROVENANCE)
    assert found["predicate"]["runDetails"]["builder"]["id"] == "https://ci.example/builder"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{}", "x: not an in-toto statement of version 1"),
        (b"[]", "x: expected an object"),
        (b"{", "x: not valid JSON"),
        (b'{"_type": "https://in-toto.io/Statement/v0.1"}', "x: not an in-toto statement of version 1"),
        (b'{"_type": "https://in-toto.io/Statement/v1"}', "x: predicateType is required"),
        (
            b'{"_type": "https://in-toto.io/Statement/v1", "predicateType": "a", "subject": [1]}',
            r"x: subject\[0\]: expected an object",
        ),
        (b'{"_type": "a", "_type": "b"}', "key '_type' twice"),
    ],
)
def test_no_statement(raw: bytes, message: str) -> None:
    with pytest.raises(ArchiveRefused, match=message):
        statement.decode_statement(raw, "x")


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("buildDefinition",), None, "x: buildDefinition: expected an object"),
        (
            ("buildDefinition", "buildType"),
            "https://other",
            "x: its buildType is not urn:sandwright:build:v1",
        ),
        (("buildDefinition", "externalParameters"), {}, "are not image, platforms and epoch"),
        (("buildDefinition", "externalParameters", "epoch"), "1", "are not image, platforms and epoch"),
        (("buildDefinition", "resolvedDependencies"), [{}], "x: it has no sha256"),
        (("runDetails", "byproducts"), [{"name": "a"}], "it doesn't say what it is attached to"),
    ],
)
def test_no_provenance_of_ours(release: Release, where: tuple[str, ...], value: object, message: str) -> None:
    document = json.loads(json.dumps(said(release, PROVENANCE)))
    at = document["predicate"]
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = value
    found = statement.decode_statement(json.dumps(document).encode(), "x")
    with pytest.raises(ArchiveRefused, match=message):
        provenance.read_provenance(found, release.root.digest, "x")


def test_sources_there_and_back(world: World, tmp_path: Path) -> None:
    found = sources.collect_sources(world.catalogue, "app")
    assert found.files.keys() == {"app/image.yaml", "app/files/run", "base/image.yaml", "base/lock.json"}
    assert "base/lock.json" not in found.written
    again = sources.decode_sources(sources.encode_sources(found), found.lock, "x")
    assert dict(again.files) == dict(found.files)
    sources.write_sources(again, tmp_path / "images")
    for path, content in found.files.items():
        assert (tmp_path / "images" / path).read_bytes() == content
    assert sources.lock_of_image(world.catalogue, "app") == load_lock(world.images / "base")


@pytest.mark.parametrize(
    "path",
    ["image.yaml", "/etc/passwd", "../x/y", "a/../../b", "a//b", "a/./b", "a/", "", "a/\0", "a/" + "b" * 256],
)
@pytest.mark.parametrize("kind", ["file", "lock"])
def test_sources_that_would_be_written_elsewhere(path: str, kind: str) -> None:
    document: dict[str, Any] = {"schema": 1, "image": "a", "files": {}, "lock": "a/lock.json"}
    if kind == "file":
        document["files"] = {path: base64.b64encode(b"x").decode()}
    else:
        document["lock"] = path
    with pytest.raises(ArchiveRefused, match=r"x: .* cannot be the path of a source"):
        sources.decode_sources(json.dumps(document).encode(), b"", "x")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "not the sources of an image"),
        ({"schema": 2, "image": "a"}, "or of another version"),
        ({"schema": 1, "image": 1}, "not the sources of an image"),
        ({"schema": 1, "image": "a", "files": {"a/b": "%"}, "lock": "a/b"}, "'a/b': not base64"),
        ({"schema": 1, "image": "a", "files": {"a/b": 1}, "lock": "a/b"}, "values must be strings"),
    ],
)
def test_no_sources(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ArchiveRefused, match=f"x.*{message}"):
        sources.decode_sources(json.dumps(document).encode(), b"", "x")
