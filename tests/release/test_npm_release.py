"""An image with packages of npm: its SBOMs, and its release made again without registry and mirror.

Tests of release/npmpackages.py.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.registry.reference import parse_reference
from sandwright.release.subject import Release
from support.npms import HELPER, MODULES, NATIVE, TEXT, TOOL, NpmWorld, npm_world
from support.registryserver import Server
from support.releases import made_again, released

pytestmark = [pytest.mark.needs("docker-registry", "npm"), pytest.mark.timeout(300)]

PURLS = {
    "pkg:npm/tool@1.0.0",
    "pkg:npm/%40scope/helper@1.0.0",
    "pkg:npm/%40scope/helper@2.1.0-rc.1",
    "pkg:npm/scope-helper@1.0.0",
    "pkg:npm/native-x64@1.0.0",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NpmWorld]:
    with npm_world(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def release(place: NpmWorld) -> Release:
    place.lock(TEXT)
    return released(place.world, place.world.build(), "base", store=True)


def test_the_documents(release: Release) -> None:
    documents = {each.name: json.loads(each.content) for each in release.documents if "SBOM" in each.name}
    components = documents["SBOM cyclonedx linux/amd64"]["components"]
    found = {each["purl"]: each for each in components if each.get("purl", "").startswith("pkg:npm/")}
    assert found.keys() == PURLS
    for package, purl in ((TOOL, "pkg:npm/tool@1.0.0"), (HELPER, "pkg:npm/%40scope/helper@2.1.0-rc.1")):
        digest = hashlib.sha256(package.build()).hexdigest()
        assert found[purl]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    owned = {each["name"] for each in found["pkg:npm/tool@1.0.0"]["components"]}
    assert owned == {f"/{MODULES}/tool/{name}" for name in ("package.json", "bin/run.js", "lib/data.txt")}
    licence = found["pkg:npm/tool@1.0.0"]["licenses"]
    assert licence == [{"expression": "MIT"}]
    graph = [each["ref"] for each in documents["SBOM cyclonedx linux/amd64"]["dependencies"]]
    assert len(graph) == len(set(graph))
    spdx = documents["SBOM spdx linux/amd64"]["packages"]
    assert {each["externalRefs"][0]["referenceLocator"] for each in spdx if "externalRefs" in each} >= PURLS


def test_the_provenance(release: Release) -> None:
    (claim,) = (json.loads(each.payload) for each in release.claims if each.name == "provenance")
    named = {each["name"]: each for each in claim["predicate"]["buildDefinition"]["resolvedDependencies"]}
    native = NATIVE["linux/arm64"]
    assert named["native-arm64-1.0.0.tgz"] == {
        "name": "native-arm64-1.0.0.tgz",
        "uri": "pkg:npm/native-arm64@1.0.0",
        "digest": {"sha256": hashlib.sha256(native.build()).hexdigest()},
    }
    assert {
        "@scope/helper-1.0.0.tgz",
        "scope-helper-1.0.0.tgz",
        "base/files/package-lock.json",
    } <= named.keys()


def test_made_again_from_the_store(place: NpmWorld, release: Release, server: Server, tmp_path: Path) -> None:
    reference = parse_reference(f"{server.host}/npm/base:1")

    def close() -> None:
        place.registry.offered.clear()
        shutil.rmtree(place.world.mirror)

    findings = made_again(release, reference, tmp_path, close)
    assert findings[4].detail.endswith("; 10 packages in a store")
