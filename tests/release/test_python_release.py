"""An image with Python packages: its SBOMs, and its release made again without index and mirror.

Tests of release/pythonpackages.py.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from sandwright.registry.reference import parse_reference
from sandwright.release.subject import Release
from support.pythonworld import SITE, TOOL, PythonWorld, native
from support.registryserver import Server
from support.releases import made_again, released

pytestmark = [pytest.mark.needs("docker-registry", "pip3"), pytest.mark.timeout(300)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PythonWorld:
    return PythonWorld(tmp_path, monkeypatch)


@pytest.fixture
def release(place: PythonWorld) -> Release:
    place.lock()
    return released(place.world, place.world.build(), "base", store=True)


def test_the_documents(release: Release) -> None:
    documents = {each.name: json.loads(each.content) for each in release.documents if "SBOM" in each.name}
    components = documents["SBOM cyclonedx linux/amd64"]["components"]
    found = {each["purl"]: each for each in components if each.get("purl", "").startswith("pkg:pypi/")}
    assert found.keys() == {"pkg:pypi/native@1.0", "pkg:pypi/some-tool@1.0"}
    tool = found["pkg:pypi/some-tool@1.0"]
    assert tool["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(TOOL.build()).hexdigest()}]
    owned = {each["name"] for each in tool["components"]}
    assert {f"/{SITE}/tool/data.txt", "/usr/local/bin/tool"} <= owned
    assert f"/{SITE}/Some.Tool-1.0.dist-info/RECORD" in owned
    spdx = documents["SBOM spdx linux/amd64"]["packages"]
    urls = [each["externalRefs"][0]["referenceLocator"] for each in spdx if "externalRefs" in each]
    assert {"pkg:pypi/native@1.0", "pkg:pypi/some-tool@1.0"} <= set(urls)


def test_the_provenance(release: Release) -> None:
    (claim,) = (json.loads(each.payload) for each in release.claims if each.name == "provenance")
    named = {each["name"]: each for each in claim["predicate"]["buildDefinition"]["resolvedDependencies"]}
    wheel = native("linux/arm64")
    assert named[wheel.file] == {
        "name": wheel.file,
        "uri": "pkg:pypi/native@1.0",
        "digest": {"sha256": hashlib.sha256(wheel.build()).hexdigest()},
    }
    assert "base/files/requirements.txt" in named


def test_made_again_from_the_store(
    place: PythonWorld, release: Release, server: Server, tmp_path: Path
) -> None:
    reference = parse_reference(f"{server.host}/python/base:1")

    def close() -> None:
        shutil.rmtree(place.index)
        shutil.rmtree(place.world.mirror)

    findings = made_again(release, reference, tmp_path, close)
    assert findings[4].detail.endswith("; 11 packages in a store")
