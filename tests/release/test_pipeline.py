"""A pipeline of third-party tools accepts the output of `publish`, and refuses it after tampering."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.errors import IntegrityError
from sandwright.image.build import build_images
from sandwright.image.cache import Cache, default_cache
from sandwright.image.definition import load_catalogue
from sandwright.image.fetcher import Fetcher
from sandwright.image.mirrors import find_mirrors
from sandwright.registry.reference import parse_reference
from sandwright.registry.referrer import TITLE
from sandwright.registry.repository import open_repository
from sandwright.registry.settings import RegistrySettings
from sandwright.release.publish import make_plan, publish
from sandwright.release.signing import load_key
from sandwright.release.statement import TEST_RESULT
from sandwright.release.subject import Release, ReleaseEvidence, prepare
from sandwright.resources import data_path
from support import gotools
from support.otherregistries import registry_of
from support.registryserver import registry_server
from support.releases import report_of, write_key
from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time to build the tools"),
    pytest.mark.timeout(6000),
    pytest.mark.needs("docker-registry", "skopeo"),
]

STEP = 120.0
PLATFORMS = ("linux/amd64", "linux/arm64")
ATTESTED = {
    "cyclonedx": "linux/amd64",
    "spdxjson": "linux/arm64",
    "openvex": "linux/amd64",
    "slsaprovenance1": "",
    TEST_RESULT: "",
}
"""The types of attestations, each with its platform; without one, it is about the index."""


VEX = """\
schema: 1
author: The tests of sandwright
updated: 2026-11-29
statements:
  - vulnerability: CVE-2099-0001
    products: [pkg:deb/debian/openssl]
    status: not_affected
    justification: vulnerable_code_not_in_execute_path
    expires: 2099-12-31
"""


@dataclass(frozen=True)
class Pipeline:
    """A registry with a published image, and a home for the tools."""

    host: str
    release: Release
    keys: Path
    home: Path

    @property
    def repository(self) -> str:
        return f"{self.host}/team/distroless"

    @property
    def image(self) -> str:
        return f"{self.repository}:1"

    def of_platform(self, platform: str) -> str:
        digest = self.release.manifests[platform].digest if platform else self.release.root.digest
        return f"{self.repository}@{digest}"

    def run(self, tool: str, *words: object) -> process.Result:
        """Run a tool to its end, with any status."""
        program = tool if tool == "skopeo" else gotools.require(tool)
        settings = {**os.environ, "HOME": str(self.home), **GRYPE, "GRYPE_DB_CACHE_DIR": f"{self.home}/db"}
        return process.run(program, *map(str, words), env=settings, timeout=STEP, check=False)

    def cosign(self, *words: object, key: str = "key") -> process.Result:
        common = ("--insecure-ignore-tlog=true", "--allow-http-registry")
        return self.run("cosign", *words, "--key", self.keys / f"{key}.pub", *common)

    def regctl(self, *words: object) -> process.Result:
        plain = self.run("regctl", "registry", "set", "--tls", "disabled", self.host)
        assert plain, plain.stderr
        return self.run("regctl", *words)


GRYPE = {
    "GRYPE_DB_AUTO_UPDATE": "false",
    "GRYPE_DB_VALIDATE_AGE": "false",
    "GRYPE_CHECK_FOR_APP_UPDATE": "false",
    "SYFT_CHECK_FOR_APP_UPDATE": "false",
}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """distroless for two platforms; the smoke run's report is invented, because no sandbox is tested here."""
    place = tmp_path_factory.mktemp("distroless")
    shutil.copytree(data_path("images", "distroless"), place / "definitions/distroless")
    (place / "definitions/distroless/vex.yaml").write_text(VEX)
    catalogue = load_catalogue(place / "definitions")
    supply = Fetcher(Cache(default_cache(os.environ)), lambda: find_mirrors(None, os.environ))
    built = build_images(catalogue, ["distroless"], output=place, supply=supply, platforms=PLATFORMS)
    proof = ReleaseEvidence(report_of({each.name: each for each in built}), needed=False)
    return prepare(catalogue, "distroless", proof, output=place, supply=supply)


@pytest.fixture(scope="module", params=["distribution2", "distribution3", "referrers", "olareg"])
def pipeline(
    request: pytest.FixtureRequest, release: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pipeline]:
    keys, home = tmp_path_factory.mktemp("keys"), tmp_path_factory.mktemp("home")
    private = {name: write_key(keys, name, kind="p256")[0] for name in ("key", "other")}
    with registry_of(request.param, tmp_path_factory.mktemp("registry")) as host:
        made = Pipeline(host, release, keys, home)
        _publish(made.repository, release, private["key"])
        _publish(f"{host}/other/distroless", release, private["other"])
        yield made


def _publish(name: str, release: Release, private: Path) -> None:
    key = load_key(str(private), environ={})
    with open_repository(parse_reference(name), RegistrySettings(), push=True) as repository:
        publish(repository, make_plan(repository, release, key.verifier, ("1",)), key)


def test_a_registry_that_lists_other_referrers_is_refused(release: Release, tmp_path: Path) -> None:
    """zot 1.4.3 implements a draft of the API: its list has the type of a referrer's config, not its own."""
    private, _ = write_key(tmp_path, "key", kind="p256")
    with (
        registry_of("zot", tmp_path) as host,
        pytest.raises(IntegrityError, match="was attached, and is not there"),
    ):
        _publish(f"{host}/team/distroless", release, private)


def test_the_image_is_whole(pipeline: Pipeline, tmp_path: Path) -> None:
    image, digest = pipeline.image, pipeline.release.root.digest
    validated = pipeline.run("crane", "validate", "--remote", image)
    assert validated, validated.stderr
    assert pipeline.run("crane", "digest", image).text.strip() == digest
    copied = pipeline.run(
        "skopeo", "copy", "--all", "--src-tls-verify=false", f"docker://{image}", f"oci:{tmp_path}/s:1"
    )
    assert copied, copied.stderr
    copied = pipeline.run(
        "oras", "copy", "-r", "--from-plain-http", "--to-oci-layout", image, f"{tmp_path}/o:1"
    )
    assert copied, copied.stderr
    copied = pipeline.regctl(
        "image", "copy", "--referrers", "--digest-tags", image, f"ocidir://{tmp_path}/r:1"
    )
    assert copied, copied.stderr
    for layout in "sor":
        (listed,) = [
            each
            for each in json.loads((tmp_path / layout / "index.json").read_text())["manifests"]
            if each["digest"] == digest
        ]
        assert listed["size"] == pipeline.release.root.size


def _copy_words(tool: str, image: str, target: Path) -> tuple[object, ...]:
    """The arguments with which each tool copies a whole image into a layout."""
    return {
        "crane": ("validate", "--remote", image),
        "skopeo": ("copy", "--all", "--src-tls-verify=false", f"docker://{image}", f"oci:{target}:1"),
        "oras": ("copy", "-r", "--from-plain-http", "--to-oci-layout", image, f"{target}:1"),
        "regctl": ("image", "copy", image, f"ocidir://{target}:1"),
    }[tool]


@pytest.mark.parametrize("tool", ["crane", "skopeo", "oras", "regctl"])
def test_a_layer_changed_in_storage_is_refused(release: Release, tmp_path: Path, tool: str) -> None:
    private, _ = write_key(tmp_path, "key", kind="p256")
    with registry_server(tmp_path / "registry") as server:
        pipeline = Pipeline(server.host, release, tmp_path, tmp_path)
        _publish(pipeline.repository, release, private)
        run = pipeline.regctl if tool == "regctl" else partial(pipeline.run, tool)
        whole = run(*_copy_words(tool, pipeline.image, tmp_path / "whole"))
        assert whole, whole.stderr
        blob = server.blob(max(release.image.graph.blobs, key=lambda each: each.size).digest)
        changed = bytearray(blob.read_bytes())
        changed[len(changed) // 2] ^= 1
        blob.write_bytes(changed)
        refused = run(*_copy_words(tool, pipeline.image, tmp_path / "changed"))
        assert not refused, refused.stdout


def test_documents_are_files(pipeline: Pipeline, tmp_path: Path) -> None:
    """`oras pull` writes the attached SBOM."""
    found = pipeline.run(
        "oras", "discover", "--plain-http", "--format", "json", pipeline.of_platform("linux/amd64")
    )
    assert found, found.stderr
    (digest,) = (
        each["digest"]
        for each in json.loads(found.text)["referrers"]
        if each["artifactType"] == "application/vnd.cyclonedx+json"
    )
    pulled = pipeline.run("oras", "pull", "--plain-http", "-o", tmp_path, f"{pipeline.repository}@{digest}")
    assert pulled, pulled.stderr
    assert json.loads((tmp_path / "SBOM-cyclonedx-linux-amd64.json").read_bytes())["bomFormat"] == "CycloneDX"


@pytest.mark.parametrize("scheme", ["referrers", "tags"])
def test_cosign_verifies(pipeline: Pipeline, scheme: str) -> None:
    """cosign finds them among referrers by default, and under tags like older clients."""
    older = () if scheme == "referrers" else ("--new-bundle-format=false",)
    for platform in ("", *PLATFORMS):
        verified = pipeline.cosign("verify", *older, pipeline.of_platform(platform))
        assert verified, verified.stderr
    for kind, platform in ATTESTED.items():
        words = ("verify-attestation", *older, "--type", kind, pipeline.of_platform(platform))
        verified = pipeline.cosign(*words)
        assert verified, (kind, verified.stderr)
        assert not pipeline.cosign(*words, key="other"), kind


def _attested(pipeline: Pipeline, kind: str, platform: str) -> Mapping[str, Any]:
    verified = pipeline.cosign("verify-attestation", "--type", kind, pipeline.of_platform(platform))
    assert verified, verified.stderr
    statement = json.loads(base64.b64decode(json.loads(verified.text.splitlines()[0])["payload"]))
    return dict(statement["predicate"])


def test_statements_about_vulnerabilities_are_openvex(pipeline: Pipeline) -> None:
    predicate = _attested(pipeline, "openvex", "linux/amd64")
    (statement,) = predicate["statements"]
    assert predicate["@context"] == "https://openvex.dev/ns/v0.2.0"
    assert statement["vulnerability"] == {"name": "CVE-2099-0001"}
    (product,) = statement["products"]
    digest = pipeline.release.manifests["linux/amd64"].digest
    assert product["@id"] == f"pkg:oci/distroless@{digest.replace(':', '%3A')}?arch=amd64"
    listed = {each.get("purl") for each in _attested(pipeline, "cyclonedx", "linux/amd64")["components"]}
    named = {each["@id"] for each in product["subcomponents"]}
    assert named <= listed
    assert any("/libssl3@" in each for each in named)


def _found(pipeline: Pipeline, source: str) -> set[tuple[str, str, str]]:
    """The findings of grype: vulnerability, package, version."""
    scanned = pipeline.run("grype", source, "-q", "-o", "json")
    assert scanned, scanned.stderr
    return {
        (each["vulnerability"]["id"], each["artifact"]["name"], each["artifact"]["version"])
        for each in json.loads(scanned.text)["matches"]
    }


def test_scanners_find_the_same_in_sbom_and_image(pipeline: Pipeline, tmp_path: Path) -> None:
    """The database names source packages, as Debian's does; grype's public one can't be fetched here."""
    made = pipeline.run("grypedb", pipeline.home / "db/6", "openssl", "glibc", "sqlite3", "absent")
    assert made, made.stderr
    for kind, name in (("cyclonedx", "cdx.json"), ("spdxjson", "spdx.json")):
        platform = "linux/amd64"
        (tmp_path / name).write_text(json.dumps(_attested(pipeline, kind, platform)))
    pulled = pipeline.run(
        "crane", "pull", "--format=oci", "--platform=linux/amd64", pipeline.image, tmp_path / "oci"
    )
    assert pulled, pulled.stderr
    scanned = pipeline.run(
        "syft", "scan", f"oci-dir:{tmp_path}/oci", "-q", "-o", f"cyclonedx-json={tmp_path}/syft.json"
    )
    assert scanned, scanned.stderr
    sources = (
        f"oci-dir:{tmp_path}/oci",
        *(f"sbom:{tmp_path}/{each}" for each in ("cdx.json", "spdx.json", "syft.json")),
    )
    found = {source: _found(pipeline, source) for source in sources}
    first = found[sources[0]]
    assert {(cve, name) for cve, name, _ in first} >= {
        ("CVE-2099-0001", "libssl3"),
        ("CVE-2099-0002", "libc6"),
        ("CVE-2099-0003", "libsqlite3-0"),
    }
    assert all(each == first for each in found.values()), found


def test_trivy_reads_the_same_packages(pipeline: Pipeline, tmp_path: Path) -> None:
    """This includes the source packages by which it matches. Its own database can't be fetched here."""
    archive = tmp_path / "image.tar"
    pulled = pipeline.run("crane", "pull", "--platform=linux/amd64", pipeline.image, archive)
    assert pulled, pulled.stderr
    in_image = _packages(pipeline, "image", "--input", archive)
    assert ("libssl3", "openssl") in {(name, source) for name, source, *_ in in_image}
    for kind in ("cyclonedx", "spdxjson"):
        sbom = tmp_path / f"{kind}.json"
        sbom.write_text(json.dumps(_attested(pipeline, kind, "linux/amd64")))
        assert _packages(pipeline, "sbom", sbom) == in_image, kind


def _packages(pipeline: Pipeline, *source: object) -> set[tuple[str, ...]]:
    options = ("--offline-scan", "--skip-db-update", "--scanners=license", "--list-all-pkgs", "--format=json")
    scanned = pipeline.run("trivy", source[0], *options, *source[1:])
    assert scanned, scanned.stderr
    return {
        (package["Name"], package["SrcName"], _version(package, ""), _version(package, "Src"))
        for result in json.loads(scanned.text)["Results"]
        for package in result.get("Packages", ())
    }


def _version(package: Mapping[str, Any], prefix: str) -> str:
    """The whole version: in SBOMs, trivy splits only that of the source package."""
    epoch, release = package.get(f"{prefix}Epoch"), package.get(f"{prefix}Release")
    version = str(package[f"{prefix}Version"])
    return (f"{epoch}:" if epoch else "") + version + (f"-{release}" if release else "")


def _push_altered(pipeline: Pipeline, what: str, scratch: Path) -> str:
    """Push an altered image beside the published one, under a tag; return its reference."""
    target, amd64 = f"{pipeline.repository}:{what}", pipeline.of_platform("linux/amd64")
    if what == "config":
        words: tuple[object, ...] = ("mutate", amd64, "--env", "LD_PRELOAD=/x.so", "--tag", target)
    elif what == "layer":
        (scratch / "planted").write_text("planted")
        process.run("tar", "-C", scratch, "-czf", scratch / "layer.tar.gz", "planted")
        words = ("append", "--base", amd64, "--new_layer", scratch / "layer.tar.gz", "--new_tag", target)
    else:
        words = ("index", "filter", pipeline.image, "--platform", "linux/amd64", "--tag", target)
    altered = pipeline.run("crane", *words)
    assert altered, altered.stderr
    return target


@pytest.mark.parametrize("what", ["config", "layer", "index"])
def test_an_altered_image_is_refused(pipeline: Pipeline, tmp_path: Path, what: str) -> None:
    """This holds even with the published image's signatures and attestations attached to it."""
    altered = _push_altered(pipeline, what, tmp_path)
    assert not pipeline.cosign("verify", altered)
    bundles = [*_bundles(pipeline, ""), *_bundles(pipeline, "linux/amd64")]
    assert len(bundles) == 3 + 4  # provenance, tests, signature; two SBOMs, VEX, signature
    for number, (stated, digest) in enumerate(bundles):
        file = tmp_path / f"{number}.json"
        fetched = pipeline.run(
            "oras", "blob", "fetch", "--plain-http", "-o", file, f"{pipeline.repository}@{digest}"
        )
        assert fetched, fetched.stderr
        words = [word for each in stated.items() for word in ("--annotation", "=".join(each))]
        attached = pipeline.run(
            *("oras", "attach", "--plain-http", "--disable-path-validation", "--artifact-type", BUNDLE),
            *(*words, altered, f"{file}:{BUNDLE}"),
        )
        assert attached, attached.stderr
    refused = pipeline.cosign("verify", altered)
    assert not refused
    assert "digest" in refused.stderr, refused.stderr
    for kind in ATTESTED:
        assert not pipeline.cosign("verify-attestation", "--type", kind, altered), kind


BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"


def _bundles(pipeline: Pipeline, platform: str) -> list[tuple[dict[str, str], str]]:
    """The signed statements about a manifest: annotations, and digest of the bundle."""
    subject = pipeline.of_platform(platform)
    found = pipeline.run("oras", "discover", "--plain-http", "--format", "json", subject)
    assert found, found.stderr
    listed = []
    for each in json.loads(found.text)["referrers"]:
        if each["artifactType"] == BUNDLE:
            manifest = json.loads(
                pipeline.run("crane", "manifest", f"{pipeline.repository}@{each['digest']}").text
            )
            stated = dict(manifest["annotations"])
            del stated[TITLE]  # `oras attach` would write the manifest to a file of that name
            listed.append((stated, str(manifest["layers"][0]["digest"])))
    return listed


def _envelopes(pipeline: Pipeline, platform: str) -> dict[str, dict[str, Any]]:
    """The signed statements about a manifest: DSSE envelopes by the type of their predicate."""
    found = {}
    for _, digest in _bundles(pipeline, platform):
        fetched = pipeline.run(
            "oras", "blob", "fetch", "--plain-http", "-o", "-", f"{pipeline.repository}@{digest}"
        )
        assert fetched, fetched.stderr
        envelope = json.loads(fetched.stdout)["dsseEnvelope"]
        found[json.loads(base64.b64decode(envelope["payload"]))["predicateType"]] = envelope
    return found


PROVENANCE = "https://slsa.dev/provenance/v1"


@pytest.mark.parametrize("platform", ["", "linux/amd64"])
def test_in_toto_s_library_reads_the_statements(pipeline: Pipeline, platform: str) -> None:
    """It validates the statement, and the provenance by the schema of SLSA."""
    envelopes = _envelopes(pipeline, platform)
    assert (PROVENANCE in envelopes) == (not platform)
    for kind, envelope in envelopes.items():
        payload = base64.b64decode(envelope["payload"])
        read = process.run(gotools.require("attestation"), stdin=payload, timeout=STEP)
        assert read.text == kind
    if not platform:
        statement = json.loads(base64.b64decode(envelopes[PROVENANCE]["payload"]))
        del statement["predicate"]["runDetails"]["builder"]
        refused = process.run(
            gotools.require("attestation"), stdin=json.dumps(statement).encode(), timeout=STEP, check=False
        )
        assert "builder" in refused.stderr


def test_cosign_checks_what_the_provenance_says(pipeline: Pipeline, tmp_path: Path) -> None:
    """It checks with a policy and a key, without a list of builders."""
    image = pipeline.of_platform("")
    for number, (builder, holds) in enumerate({"urn:sandwright:builder": True, "urn:other": False}.items()):
        policy = tmp_path / f"{number}.cue"
        policy.write_text(f'predicate: runDetails: builder: id: "{builder}"\n')
        words = ("verify-attestation", "--type", "slsaprovenance1", "--policy", policy, image)
        verified = pipeline.cosign(*words)
        assert bool(verified) is holds, verified.stderr


def test_slsa_verifier_takes_the_signature_and_not_the_builder(pipeline: Pipeline, tmp_path: Path) -> None:
    """Its list of builders is built in. It verifies the signature of a key only for another predicate."""
    path = tmp_path / "envelope.json"
    path.write_text(json.dumps(_envelopes(pipeline, "")[PROVENANCE]))
    root = f"{pipeline.repository}@{pipeline.release.root.digest}"
    builder = ("--source-uri", "github.com/team/images", "--builder-id", "urn:sandwright:builder")
    refused = pipeline.run("slsa-verifier", "verify-image", root, "--provenance-path", path, *builder)
    assert "no verifier support the builder: urn:sandwright:builder" in refused.stderr
    summary = ("--subject-digest", pipeline.release.root.digest, "--attestation-path", path)
    wanted = ("--verifier-id", "x", "--resource-uri", "x", "--verified-level", "SLSA_BUILD_LEVEL_1")
    for key, message in (("key", f'got "{PROVENANCE}"'), ("other", "no valid signature")):
        public = ("--public-key-path", pipeline.keys / f"{key}.pub")
        refused = pipeline.run("slsa-verifier", "verify-vsa", *summary, *wanted, *public)
        assert message in refused.stderr


def test_a_signature_by_another_key_is_refused(pipeline: Pipeline) -> None:
    other = f"{pipeline.host}/other/distroless:1"
    assert pipeline.cosign("verify", other, key="other")
    for older in ((), ("--new-bundle-format=false",)):
        assert not pipeline.cosign("verify", *older, other)


def test_an_image_without_its_referrers_is_refused(pipeline: Pipeline) -> None:
    """Without referrers, cosign reports a missing signature, and so does a copy without them."""
    bare = f"{pipeline.host}/bare/distroless:1"
    copied = pipeline.run("crane", "copy", pipeline.image, bare)
    assert copied, copied.stderr
    refused = pipeline.cosign("verify", bare)
    assert not refused
    assert "no signatures found" in refused.stderr
    whole = f"{pipeline.host}/whole/distroless:1"
    copied = pipeline.regctl("image", "copy", "--referrers", "--digest-tags", pipeline.image, whole)
    assert copied, copied.stderr
    verified = pipeline.cosign("verify", whole)
    assert verified, verified.stderr


def test_a_deleted_signature_is_missed(pipeline: Pipeline) -> None:
    """The bundles and the tags of older clients are deleted from a complete copy."""
    copy = f"{pipeline.host}/deleted/distroless"
    copied = pipeline.regctl("image", "copy", "--referrers", "--digest-tags", pipeline.image, f"{copy}:1")
    assert copied, copied.stderr
    assert pipeline.cosign("verify", f"{copy}:1")
    root = pipeline.release.root.digest
    found = pipeline.run("oras", "discover", "--plain-http", "--format", "json", f"{copy}@{root}")
    bundles = [
        each["digest"] for each in json.loads(found.text)["referrers"] if each["artifactType"] == BUNDLE
    ]
    tags = [
        pipeline.run("crane", "digest", f"{copy}:{root.replace(':', '-')}.{kind}").text.strip()
        for kind in ("sig", "att")
    ]
    for digest in (*bundles, *tags):
        deleted = pipeline.run("oras", "manifest", "delete", "--plain-http", "--force", f"{copy}@{digest}")
        assert deleted, deleted.stderr
    refused = pipeline.cosign("verify", f"{copy}:1")
    assert not refused
    assert not pipeline.cosign("verify-attestation", "--type", "slsaprovenance1", f"{copy}:1")
