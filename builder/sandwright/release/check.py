"""Checks a published image, first its signature, with nothing but a public key: `verify-image`.

The registry is not trusted. The signature names the image and its platforms; the signed provenance names by
digest all inputs of the image and all documents published with it. They must exist, have these digests, and
agree with the contents of the image. No cache is used, so that a byte changed in the registry is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright.errors import ArchiveRefused, IntegrityError, SandwrightError
from sandwright.image.baselock import BaseLock
from sandwright.image.definition import load_catalogue
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import Lock
from sandwright.image.packagestore import PackageStore
from sandwright.progress import SILENT, Progress
from sandwright.registry.failure import NotFound, RegistryError
from sandwright.registry.pull import pull_pinned
from sandwright.registry.repository import Repository
from sandwright.release import evidence, provenance, sources, statement, vex
from sandwright.release.attach import LARGEST_BUNDLE, attached_documents, fetch
from sandwright.release.attestations import check_index
from sandwright.release.bundle import BUNDLE, NotSigned, Verifier
from sandwright.release.contents import read_contents
from sandwright.release.listed import MEDIA_TYPES, check_listing, read_sbom
from sandwright.release.packagestore import check_store
from sandwright.release.provenance import Byproduct, Provenance
from sandwright.release.pulled import PulledLayout
from sandwright.release.rebuild import rebuild
from sandwright.release.sbom import FORMATS
from sandwright.release.sources import Sources
from sandwright.release.statement import PROVENANCE, SIGNATURE, InTotoStatement
from sandwright.release.subject import DOCUMENT_TYPES, LOCK_TYPE, SOURCES_TYPE
from sandwright.rootfs.descriptor import INDEX_TYPES, Descriptor
from sandwright.rootfs.images.source import open_image
from sandwright.verify.verdict import ProbeFinding, Verdict


@dataclass(frozen=True)
class RebuildOptions:
    """The inputs for rebuilding an image. Without `platforms`, all published platforms are rebuilt."""

    supply: Fetcher
    platforms: Sequence[str] = ()


def check_image(
    repository: Repository,
    what: str,
    verifier: Verifier,
    scratch: Path,
    *,
    name: str = "",
    again: RebuildOptions | None = None,
    progress: Progress = SILENT,
) -> Iterator[ProbeFinding]:
    """Check the image that a tag or digest names, a finding at a time; `scratch` is an empty directory.

    `name` is that of the image which it must be, absent: the last part of the repository's. A check that
    fails reports the fault and its position in its finding, and dependent checks are skipped. Raise
    RegistryError when the registry doesn't answer or refuses, or has no such image.
    """
    named_manifest = repository.manifest(what).descriptor
    work = _Check(repository, verifier, scratch, progress, name or repository.name.rpartition("/")[2])
    steps: list[tuple[str, Callable[[], str]]] = [
        ("signature", lambda: work.signature(named_manifest)),
        ("image", work.image),
        ("provenance", work.provenance),
        ("documents", work.documents),
        ("sources", work.sources),
        ("SBOM", work.sboms),
        ("evidence", work.evidence),
    ]
    if again is not None:
        steps.append(("rebuild", lambda: work.rebuild(again)))
    failed = ""
    for check_name, step in steps:
        if failed:
            yield ProbeFinding(check_name, Verdict.SKIPPED, f"{failed} failed")
            continue
        finding = _try_step(check_name, step)
        failed = check_name if finding.verdict is not Verdict.PASS else ""
        yield finding


def _try_step(name: str, step: Callable[[], str]) -> ProbeFinding:
    try:
        return ProbeFinding(name, Verdict.PASS, step())
    except SandwrightError as error:
        if isinstance(error, RegistryError) and not isinstance(error, NotFound):
            raise
        return ProbeFinding(name, Verdict.FAIL, str(error))


@dataclass(frozen=True)
class _Found:
    """A provenance with the documents that it names, and the sources among them."""

    made: Provenance
    contents: Mapping[Byproduct, bytes]

    def one(self, artifact_type: str, attached_to: str, where: str) -> tuple[bytes, str]:
        """The one document of a type that is attached to a manifest, and its name for messages."""
        fitting = [
            each
            for each in self.contents
            if (each.artifact_type, each.attached_to) == (artifact_type, attached_to)
        ]
        if len(fitting) != 1:
            raise IntegrityError(
                f"{where}: its provenance names {len(fitting)} of {artifact_type} for {attached_to}"
            )
        return self.contents[fitting[0]], f"{where}: {fitting[0].name} {fitting[0].digest}"


class _Check:
    """One image under examination. Each step relies on the proofs of those before it."""

    _root: Descriptor
    _signatures: Sequence[InTotoStatement]
    _platforms: Mapping[str, str]
    _found: Sequence[_Found]
    _written: Sequence[tuple[Sources, Lock | BaseLock]]

    def __init__(
        self, repository: Repository, verifier: Verifier, scratch: Path, progress: Progress, image: str
    ) -> None:
        self._repository = repository
        self._verifier = verifier
        self._scratch = scratch
        self._progress = progress
        self._place = PulledLayout(scratch / "layout")
        self._name = str(repository)
        self._image = image

    def signature(self, manifest: Descriptor) -> str:
        """Check that the requested digest is signed, with its index, and under the name of this image.

        Without the name, who writes to the registry could put one signed image in another's place.
        """
        self._signatures = self._signed_statements(manifest.digest, SIGNATURE)
        self._root = manifest if manifest.media_type in INDEX_TYPES else self._signed_index(manifest)
        if self._root.digest != manifest.digest:
            self._signatures = self._signed_statements(self._root.digest, SIGNATURE)
        names = sorted({each.subjects[self._root.digest] for each in self._signatures})
        if self._image not in names:
            raise IntegrityError(
                f"{self._name}: {self._root.digest} is signed as image {', '.join(names)}, and not as "
                f"{self._image}; where that is meant, name it: --name {names[0]}"
            )
        part = "" if manifest.digest == self._root.digest else f", with its part {manifest.digest}"
        return f"{self._root.digest}{part} is signed by {self._verifier}"

    def image(self) -> str:
        """Check that all of the image is there, byte for byte, and its index and manifests are signed."""
        graph = pull_pinned(self._repository, self._root, self._place, progress=self._progress)
        self._place.finish(self._root)
        self._platforms = check_index(graph, self._place.read, f"{self._name}: {self._root.digest}")
        if not any(set(each.subjects) == self._known_digests for each in self._signatures):
            raise IntegrityError(
                f"{self._name}: the signed subject is not {self._root.digest} with its platforms"
            )
        for digest in self._platforms.values():
            self._signed_statements(digest, SIGNATURE)
        size = sum(blob.size for blob in graph.blobs)
        return f"{len(graph.nodes) + len(graph.blobs)} parts for {', '.join(self._platforms)}, {size} bytes"

    def provenance(self) -> str:
        """Check that the signed provenance is about this image."""
        made = []
        for each in self._signed_statements(self._root.digest, PROVENANCE):
            where = f"{self._name}: provenance of {self._root.digest}"
            if set(each.subjects) != self._known_digests:
                raise IntegrityError(f"{where}: it is about other manifests too, or not about all")
            made.append(provenance.read_provenance(each, self._root.digest, where))
            if made[-1].parameters.image != self._image:
                raise IntegrityError(f"{where}: it is about image {made[-1].parameters.image}")
        self._found = [_Found(each, self._fetched(each)) for each in made]
        last = made[-1].parameters
        return f"image {last.image}, of {len(made[-1].dependencies)} things that are named by digest"

    def documents(self) -> str:
        """Everything that the provenance names as published with the image is there, byte for byte."""
        for found in self._found:
            for kind in MEDIA_TYPES.values():
                for digest in self._platforms.values():
                    found.one(kind, digest, self._name)
            for kind in (LOCK_TYPE, SOURCES_TYPE, evidence.SMOKE_TYPE):
                found.one(kind, self._root.digest, self._name)
        return ", ".join(dict.fromkeys(each.name for found in self._found for each in found.contents))

    def sources(self) -> str:
        """Check that definitions and lock are those in the provenance, with all packages of the lock."""
        written, stored = [], ""
        for number, found in enumerate(self._found):
            raw, where = found.one(SOURCES_TYPE, self._root.digest, self._name)
            lock, _ = found.one(LOCK_TYPE, self._root.digest, self._name)
            published = sources.decode_sources(raw, lock, where)
            directory = self._scratch / f"sources-{number}"
            sources.write_sources(published, directory)
            parameters = found.made.parameters
            catalogue = load_catalogue(directory)
            if parameters.image not in catalogue:
                raise ArchiveRefused(f"{where}: no definition of {parameters.image} is in them")
            locked = sources.lock_of_image(catalogue, parameters.image)
            provenance.compare_digests(
                provenance.materials(published, locked, parameters.platforms), found.made.dependencies, where
            )
            written.append((published, locked))
            if found.made.store and isinstance(locked, Lock):
                count = check_store(
                    self._repository, found.made.store, locked, parameters.platforms, self._name
                )
                stored = f"; {count} packages in a store"
        self._written = written
        return f"{', '.join(written[-1][0].files)}{stored}"

    def sboms(self) -> str:
        """The SBOMs list the image, file for file, and the packages of its lock."""
        counts = []
        for platform, digest in self._platforms.items():
            image = open_image(self._place.path, platform=platform)
            contents = read_contents(image)
            for found, (_, lock) in zip(self._found, self._written, strict=True):
                locked = lock.everything(platform) if isinstance(lock, Lock) else None
                for kind in FORMATS:
                    raw, where = found.one(MEDIA_TYPES[kind], digest, self._name)
                    check_listing(read_sbom(raw, kind, where), contents.files, digest, locked, where)
            counts.append(f"{len(contents.files)} files of {platform}")
        return f"{', '.join(counts)}, as {' and '.join(FORMATS)} list them"

    def evidence(self) -> str:
        """Check that the evidence is about these manifests, and green."""
        subjects = {digest: platform for platform, digest in self._platforms.items()}
        lines = []
        for found in self._found:
            for each, raw in found.contents.items():
                if each.artifact_type in (evidence.SMOKE_TYPE, evidence.MATRIX_TYPE):
                    where = f"{self._name}: {each.name} {each.digest}"
                    lines.append(f"{each.name}: {evidence.check_published(raw, subjects, where)}")
        return "; ".join(dict.fromkeys([*lines, *self._vex_lines()]))

    def _vex_lines(self) -> Iterator[str]:
        """The newest signed statements about vulnerabilities, in a line for each platform that has any."""
        for platform, digest in self._platforms.items():
            found, _ = self._find_statements(digest, vex.PREDICATE)
            if found:
                predicates = [each.predicate for each in found]
                yield f"VEX {platform}: {vex.summarize_openvex(predicates, self._name)}"

    def rebuild(self, again: RebuildOptions) -> str:
        """Made again from the published sources, it is the same."""
        digests = {
            rebuild(
                found.made,
                written,
                self._place.path,
                self._scratch,
                self._supply(found.made, again.supply),
                platforms=again.platforms,
                progress=self._progress,
            )
            for found, (written, _) in zip(self._found, self._written, strict=True)
        }
        return f"made again, it is {', '.join(sorted(digests))}"

    def _supply(self, made: Provenance, supply: Fetcher) -> Fetcher:
        """The source of packages: the store of the image, unless the user named another one."""
        if not made.store or supply.store is not None:
            return supply
        store = PackageStore(self._name, lambda: nullcontext(self._repository))
        return replace(supply, store=store)

    @property
    def _known_digests(self) -> set[str]:
        """The index and its manifests."""
        return {self._root.digest, *self._platforms.values()}

    def _signed_statements(self, digest: str, kind: str) -> list[InTotoStatement]:
        """The statements of a kind about a manifest that the key has signed. Raise NotSigned for none."""
        found, why = self._find_statements(digest, kind)
        if not found:
            what = "signature" if kind == SIGNATURE else "signed provenance"
            raise NotSigned(f"{self._name}: {digest}: there is no {what} by {self._verifier}{why}")
        return found

    def _find_statements(self, digest: str, kind: str) -> tuple[list[InTotoStatement], str]:
        """The same, perhaps none, and why others don't count."""
        there, others = attached_documents(self._repository, digest, {BUNDLE})
        found, reasons = [], []
        for each in there:
            where = f"{self._name}: {each}"
            try:
                bundle = fetch(self._repository, each.content, where, most=LARGEST_BUNDLE)
                payload = self._verifier.opened(bundle, where)
                signed_statement = statement.decode_statement(payload, where)
            except (NotSigned, ArchiveRefused, NotFound) as error:
                reasons.append(str(error))
                continue
            if signed_statement.predicate_type == kind and digest in signed_statement.subjects:
                found.append(signed_statement)
        why = f": {'; '.join(reasons[:3])}" if reasons else f" among {len(there) + others} attached to it"
        return found, why

    def _signed_index(self, manifest: Descriptor) -> Descriptor:
        """The index that a signature names beside a platform's manifest."""
        for digest in dict.fromkeys(digest for each in self._signatures for digest in each.subjects):
            if digest != manifest.digest:
                found = self._repository.manifest(digest).descriptor
                if found.media_type in INDEX_TYPES:
                    return found
        raise ArchiveRefused(f"{self._name}: the signature of {manifest.digest} names no index")

    def _fetched(self, made: Provenance) -> dict[Byproduct, bytes]:
        """The documents that a provenance names."""
        there = [
            each
            for subject in dict.fromkeys(each.attached_to for each in made.documents)
            for each in attached_documents(self._repository, self._check_within(subject), DOCUMENT_TYPES)[0]
        ]
        contents = {}
        for named in made.documents:
            key = (named.artifact_type, named.attached_to, named.digest)
            found = [each for each in there if (each.artifact_type, each.subject, each.content.digest) == key]
            if not found:
                what = f"{named.name} {named.digest} is in the provenance"
                raise IntegrityError(f"{self._name}: {what}, and not attached to {named.attached_to}")
            contents[named] = fetch(self._repository, found[0].content, f"{self._name}: {named.name}")
        return contents

    def _check_within(self, digest: str) -> str:
        if digest not in self._known_digests:
            raise IntegrityError(
                f"{self._name}: the provenance names documents of {digest}, which is no part"
            )
        return digest
