"""Commands of a release: SBOMs, proofs of images, publishing with evidence, checking a published image."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sandwright import user_dirs
from sandwright.checked import Checked
from sandwright.cli import console, signers
from sandwright.cli.arguments import build_directory, image_path, names
from sandwright.cli.image_arguments import catalogue_of, fetcher, registry_settings
from sandwright.errors import HostError, UsageError, VerdictError
from sandwright.host import collect_host
from sandwright.image.definition import ImageDefinition
from sandwright.image.layoutrepository import is_layout, open_readable
from sandwright.image.lock import Lock
from sandwright.image.remote import open_layout
from sandwright.outputs import write_output
from sandwright.progress import Progress
from sandwright.reading import read_named
from sandwright.registry.reference import parse_reference
from sandwright.registry.repository import Repository, open_repository
from sandwright.registry.settings import RegistrySettings
from sandwright.release import sources
from sandwright.release.bundle import Signer
from sandwright.release.check import RebuildOptions, check_image
from sandwright.release.evidence import read_matrix, write_matrix
from sandwright.release.inventories import check_sbom, make_sboms, path_of
from sandwright.release.packagediff import (
    Versions,
    image_packages,
    package_changes,
    sbom_packages,
    to_json,
    to_markdown,
)
from sandwright.release.prove import prove_image as prove
from sandwright.release.provenance import BUILDER
from sandwright.release.publish import make_plan
from sandwright.release.publish import publish as carry_out
from sandwright.release.sbom import Format
from sandwright.release.subject import Release, ReleaseEvidence, built_image, prepare
from sandwright.rootfs.images.source import list_images
from sandwright.verify.report import summary
from sandwright.verify.smoke.report import read_report
from sandwright.verify.verdict import Verdict

TAG = "latest"
NO_MATRIX = "none"
"""In place of a method: an image may be published that no sandbox was proved on."""


def sbom(
    *,
    name: str,
    format: Format = "cyclonedx",  # noqa: A002 - the option's name
    platform: str = "",
    to: str = "",
    check: bool = False,
    diff: str = "",
    json: bool = False,
    images: str = "",
    output: str = "",
    mirror: str = "",
) -> Checked | None:
    """Write the SBOM of a built image: every package, and every file, even those of no package."""
    if diff:
        _print_package_changes(diff, name, platform, build_directory(output), as_json=json)
        return None
    if json:
        raise UsageError("--json is for --diff; give that too")
    catalogue = catalogue_of(images, [name])
    existing = built_image(build_directory(output), name)
    chosen = _choose_platform(platform, list(existing.images), name)
    found = sources.lock_of_image(catalogue, name)
    lock = found if isinstance(found, Lock) else None
    directory = build_directory(output) / "release" / name
    path = Path(to) if to else path_of(directory, chosen, format)
    if check:
        raw = _read_input(path, f"write it with 'sandwright sbom {name}'")
        count = check_sbom(existing, chosen, kind=format, raw=raw, lock=lock, where=str(path))
        console.line(f"{path}: fits {name} {chosen}: {count} files")
        return Checked(count, why=f"{name} {chosen} has no files")
    with console.watching() as progress:
        sboms = make_sboms(existing, lock, directory, fetcher(mirror), progress=progress)
    document = sboms.documents[chosen][format]
    if to == "-":
        console.write(document.decode() + "\n")
        return None
    if to:
        write_output(to, document)
    console.line(f"{path}: {console.size(len(document))}, of {existing.images[chosen].manifest.digest}")
    return None


def _print_package_changes(before: str, after: str, platform: str, output: Path, *, as_json: bool) -> None:
    changes = package_changes(*(_packages_of(each, platform, output) for each in (before, after)))
    console.write(to_json(changes).decode() if as_json else to_markdown(changes))


def _packages_of(what: str, platform: str, output: Path) -> Versions:
    """The packages of an SBOM or of an image."""
    path = image_path(what, output)
    if path.is_file() and path.suffix == ".json":
        return sbom_packages(_read_input(path, ""), str(path))
    offered = [str(each.platform) for each in list_images(path)]
    host = collect_host().platform
    return image_packages(path, platform or (host if host in offered else None))


def attest_image(
    *,
    name: str,
    method: str = "oci",
    policy: str = "",
    output: str = "",
) -> Checked:
    """Prove sandboxes on a built image, and keep the matrix as evidence about its digest."""
    methods = names(method, "--method")
    text = _read_input(Path(policy), "").decode() if policy else ""
    with console.watching() as progress:
        matrix, report = prove(name, build_directory(output), methods, policy=text, progress=progress)
    write_matrix(matrix, build_directory(output) / "release" / name)
    console.table(*summary(report))
    faults = report.faults(named=methods, required=())
    for line in (*report.skips(), *report.notes, *faults):
        console.line(line)
    if faults:
        raise VerdictError(f"{name} is not proved: {len(faults)} of {len(report.outcomes)} probes")
    console.line(f"{name} {matrix.platform} is proved for {', '.join(methods)}: {matrix.digest}")
    return Checked(report.decided())


def publish(
    *,
    image: Sequence[str] | None = None,
    to: str = "",
    key: str = "",
    public_key: str = "",
    keyless: bool = False,
    token: str = "",
    trust: str = "",
    tag: Sequence[str] | None = None,
    require: Sequence[str] | None = None,
    matrix: Sequence[str] | None = None,
    builder: str = "",
    packages: bool = False,
    attestations: bool = False,
    dry_run: bool = False,
    images: str = "",
    output: str = "",
    mirror: str = "",
    insecure: Sequence[str] | None = None,
    ca_file: str = "",
    authfile: str = "",
) -> None:
    """Publish built images with SBOM, provenance, evidence and signature; move tags last.

    Refuses an image unless its smoke run and matrix passed for exactly its digest, before anything is sent.
    """
    started = time.monotonic()
    selected, prefix = _split_destination(list(image or ()), to)
    signer = signers.signer(key, public_key, keyless=keyless, token=token, trust=trust)
    settings = registry_settings(insecure or (), ca_file, authfile)
    catalogue = catalogue_of(images, selected)
    with console.watching() as progress:
        releases = [
            _prepare_release(
                catalogue,
                name,
                build_directory(output),
                require=require or (),
                methods=matrix or (),
                builder=builder,
                mirror=mirror,
                packages=packages,
                attestations=attestations,
                progress=progress,
            )
            for name in selected
        ]
        for release in releases:
            where = f"{prefix}/{release.name}"
            _publish_image(
                release,
                where,
                signer,
                tags=list(tag or [TAG]),
                settings=settings,
                dry_run=dry_run,
                progress=progress,
            )
    console.line(f"{time.monotonic() - started:.1f} s")


def verify_image(
    *,
    reference: str,
    key: str = "",
    identity: str = "",
    issuer: str = "",
    trust: str = "",
    name: str = "",
    rebuild: bool = False,
    platform: Sequence[str] | None = None,
    mirror: str = "",
    packages: str = "",
    insecure: Sequence[str] | None = None,
    ca_file: str = "",
    authfile: str = "",
) -> Checked:
    """Check a published image: signature, provenance, SBOM, evidence, every byte."""
    if not rebuild and (platform or mirror or packages):
        raise UsageError("--platform, --mirror and --packages are for --rebuild; give that too")
    verifier = signers.verifier(key, identity=identity, issuer=issuer, trust=trust)
    if is_layout(reference) and not name:
        raise UsageError("verify-image: a layout names no repository; give the name of the image with --name")
    settings = registry_settings(insecure or (), ca_file, authfile)
    failed, checked = False, Checked()
    with (
        console.watching() as progress,
        tempfile.TemporaryDirectory(prefix="verify-", dir=user_dirs.scratch()) as scratch,
        _open_published(reference, settings) as (repository, what),
    ):
        again = (
            RebuildOptions(
                fetcher(mirror, registry=lambda: settings, packages=packages), list(platform or ())
            )
            if rebuild
            else None
        )
        for finding in check_image(
            repository, what, verifier, Path(scratch), name=name, again=again, progress=progress
        ):
            checked.add()
            failed = failed or finding.verdict is not Verdict.PASS
            console.lines(f"{finding.verdict}: {finding.check}: {finding.detail}")
    if failed:
        raise VerdictError(f"{reference} is not what {verifier} vouches for; see the lines above")
    return checked


@contextmanager
def _open_published(reference: str, settings: RegistrySettings) -> Iterator[tuple[Repository, str]]:
    """The repository of a published image, and its tag or digest there."""
    what = (
        open_layout(Path(reference)).graph.root.descriptor.digest
        if is_layout(reference)
        else parse_reference(reference).what
    )
    with open_readable(reference, settings) as repository:
        yield repository, what


def _prepare_release(
    catalogue: dict[str, ImageDefinition],
    name: str,
    output: Path,
    *,
    require: Sequence[str],
    methods: Sequence[str],
    builder: str,
    mirror: str,
    packages: bool,
    attestations: bool,
    progress: Progress,
) -> Release:
    matrix = read_matrix(output / "release" / name)
    proved = [each for each in methods if each != NO_MATRIX]
    proof = ReleaseEvidence(read_report(output), matrix, require, proved, needed=NO_MATRIX not in methods)
    return prepare(
        catalogue,
        name,
        proof,
        output=output,
        supply=fetcher(mirror),
        builder=builder or BUILDER,
        store=packages,
        attestations=attestations,
        progress=progress,
    )


def _publish_image(
    release: Release,
    where: str,
    key: Signer,
    *,
    tags: Sequence[str],
    settings: RegistrySettings,
    dry_run: bool,
    progress: Progress,
) -> None:
    """Publish one image, and show the outcome; with `dry_run`, the plan."""
    target = parse_reference(where)
    with open_repository(target, settings, push=True) as repository:
        plan = make_plan(repository, release, key.verifier, tags)
        if dry_run:
            for line in plan.describe():
                console.line(line)
            return
        done = carry_out(repository, plan, key, progress=progress)
    name = f"{target.name}@{done.digest}"
    if not done.changed:
        console.line(f"{name}: nothing has changed; it was read back")
        return
    tagged = f", tagged {', '.join(done.tagged)}" if done.tagged else ""
    console.line(f"{name}: sent {len(done.sent)} parts and documents, read back{tagged}")


def _split_destination(words: list[str], to: str) -> tuple[list[str], str]:
    """The names of the images, and HOST/PREFIX: the last word, unless `--to` names it."""
    found, prefix = (words, to) if to else (words[:-1], words[-1] if words else "")
    prefix = prefix.rstrip("/")
    if not found or not prefix:
        raise UsageError("publish: name the images and the destination: publish NAME… HOST/PREFIX --key FILE")
    if "/" not in prefix and not set(prefix) & set(".:"):
        raise UsageError(f"publish: {prefix!r} does not name a registry: HOST[:PORT] or HOST[:PORT]/PREFIX")
    return list(dict.fromkeys(found)), prefix


def _choose_platform(requested: str, offered: Sequence[str], name: str) -> str:
    host = collect_host().platform
    chosen = requested or (host if host in offered else offered[0])
    if chosen not in offered:
        raise UsageError(f"image '{name}' is not built for {chosen}, only for {', '.join(offered)}")
    return chosen


def _read_input(path: Path, hint: str) -> bytes:
    try:
        return read_named(path, limit=256 << 20)
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror}{f'; {hint}' if hint else ''}") from None
