"""Small built images with an invented, successful smoke run: the material of releases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sandwright.image.build import BuiltImage
from sandwright.image.cache import Cache
from sandwright.image.fetcher import Fetcher
from sandwright.image.mirrors import Mirrors
from sandwright.registry.reference import Reference
from sandwright.registry.repository import open_repository
from sandwright.registry.settings import RegistrySettings
from sandwright.release.check import RebuildOptions, check_image
from sandwright.release.evidence import Matrix
from sandwright.release.publish import make_plan, publish
from sandwright.release.signing import SigningKey, load_key
from sandwright.release.subject import Release, ReleaseEvidence, prepare
from sandwright.verify.smoke.report import ImageReport, ImageRow, ReportedImage
from sandwright.verify.verdict import ProbeFinding, Verdict
from support.smallworld import World

PASSED = (ProbeFinding("starts", Verdict.PASS, "exit status 0"),)
COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: thing

Files: *
Copyright: nobody
License: Expat or GPL-2+

Files: debian/*
Copyright: nobody
License: thing's own

License: GPL-2+
 The text.
"""


def report_of(built: Mapping[str, BuiltImage], *, runtime: str = "runc") -> ImageReport:
    """A report in which every image passed under one runtime."""
    rows, subjects = [], []
    for image in built.values():
        for platform, held in image.images.items():
            rows.append(ImageRow(image.name, platform, held.manifest.digest, runtime, PASSED))
            subjects.append(
                ReportedImage(image.name, platform, held.manifest.digest, held.size, len(held.layers))
            )
    return ImageReport(
        tuple(subjects), (runtime,), tuple(rows), "2026-01-01T00:00:00+00:00", 1.0, {"kernel": "6"}
    )


def matrix_of(built: Mapping[str, BuiltImage], name: str, platform: str = "linux/amd64") -> Matrix:
    """A matrix with a proof of a method on an image."""
    digest = built[name].images[platform].manifest.digest
    outcome = {"probe": "read-only", "method": "oci", "verdict": "pass", "evidence": "EROFS"}
    return Matrix(name, platform, digest, "schema: 1\n", (outcome,))


def with_row(report: ImageReport, image: str, **changes: object) -> ImageReport:
    """The report with the rows of an image changed."""
    rows = [replace(row, **changes) if row.image == image else row for row in report.rows]  # type: ignore[arg-type]
    return replace(report, rows=tuple(rows))


def released(world: World, built: Mapping[str, BuiltImage], name: str = "app", **more: object) -> Release:
    """An image of a small world, ready to be published; by default without a matrix."""
    proof = ReleaseEvidence(report_of(built), needed=False)
    return prepare(world.catalogue, name, proof, output=world.output, supply=supply(world), **more)  # type: ignore[arg-type]


def supply(world: World) -> Fetcher:
    """The supply of packages in a small world."""
    return Fetcher(world.cache, world.mirrors)


def write_key(directory: Path, name: str = "key", *, kind: str = "ed25519") -> tuple[Path, Path]:
    """A new key pair in PEM files: private, public."""
    private: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey
    if kind == "ed25519":
        private = ed25519.Ed25519PrivateKey.generate()
    else:
        private = ec.generate_private_key(ec.SECP256R1() if kind == "p256" else ec.SECP384R1())
    directory.mkdir(parents=True, exist_ok=True)
    own, public = directory / f"{name}.pem", directory / f"{name}.pub"
    own.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    spki = PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(private.public_key().public_bytes(Encoding.PEM, spki))
    return own, public


def new_key(directory: Path, name: str = "key", *, kind: str = "ed25519") -> SigningKey:
    """A new key, loaded."""
    return load_key(str(write_key(directory, name, kind=kind)[0]), environ={})


def made_again(
    release: Release, reference: Reference, folder: Path, close: Callable[[], None]
) -> list[ProbeFinding]:
    """Publish a release, close the sources of its packages, and check it with its package store."""
    key = new_key(folder / "key")
    with open_repository(reference, RegistrySettings(), push=True) as repository:
        publish(repository, make_plan(repository, release, key.verifier, ["1"]), key)
    close()
    (folder / "scratch").mkdir()
    again = RebuildOptions(Fetcher(Cache(folder / "empty"), Mirrors({})))
    with open_repository(reference, RegistrySettings()) as repository:
        findings = list(check_image(repository, "1", key.verifier, folder / "scratch", again=again))
    assert {each.verdict for each in findings} == {Verdict.PASS}, findings
    return findings
