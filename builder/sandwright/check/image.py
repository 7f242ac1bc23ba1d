"""Audits a whole image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sandwright.check.commands import run_commands
from sandwright.check.compared import check_structure
from sandwright.check.configuration import check_configuration
from sandwright.check.documents import check_layout, check_manifest
from sandwright.check.files import check_files, needs_content
from sandwright.check.finding import ImageFinding, Waiver, waive
from sandwright.check.layers import LayersRead, check_layers
from sandwright.check.structure import StructureTests
from sandwright.errors import ArchiveRefused, IntegrityError
from sandwright.progress import SILENT, Progress
from sandwright.release.contents import ImageContents, merge_layers, read_contents
from sandwright.rootfs.images.source import Image, open_image

_NANO = 1_000_000_000


@dataclass(frozen=True)
class CheckResult:
    """The findings in one image for one platform. `size` is that of its compressed layers, in bytes.

    `skipped` names the runtimes that ran no tests, with the reasons.
    """

    name: str
    digest: str
    platform: str
    size: int
    layers: int
    findings: tuple[ImageFinding, ...]
    skipped: tuple[str, ...] = ()

    @property
    def faults(self) -> list[ImageFinding]:
        """Errors that were not waived."""
        return [each for each in self.findings if each.severity == "error" and not each.waived]


def check_image(
    path: Path,
    *,
    platform: str | None = None,
    ref: str | None = None,
    budget: int | None = None,
    waivers: Sequence[Waiver] = (),
    tests: Sequence[StructureTests] = (),
    runtimes: Sequence[str] = (),
    progress: Progress = SILENT,
) -> CheckResult:
    """Audit the image at `path`: a layout, or an archive of one or of Docker.

    No program of the image is run except the commands of `tests`, under `runtimes`, or under all runtimes of
    this machine. `budget` is in bytes of packed layers. An unreadable part is a finding of rule
    `layout/refused`. Raise the exceptions of `open_image` if the image cannot be opened at all, or if several
    images fit.
    """
    image = open_image(path, platform=platform, ref=ref)
    with progress.step(f"look over {path.name}"):
        found = [*(check_layout(path) if path.is_dir() else ()), *_findings(image, budget, tests)]
    skipped: list[str] = []
    for each in tests:
        failed, missing = run_commands(image, each, runtimes=runtimes, progress=progress)
        found += failed
        skipped += missing
    size = sum(layer.size for layer in image.layers)
    return CheckResult(
        path.name,
        image.digest,
        str(image.platform),
        size,
        len(image.layers),
        tuple(waive(found, waivers)),
        tuple(dict.fromkeys(skipped)),
    )


def _findings(image: Image, budget: int | None, tests: Sequence[StructureTests]) -> Iterator[ImageFinding]:
    size = sum(layer.size for layer in image.layers)
    if budget is not None and size > budget:
        yield ImageFinding("size/budget", "", f"{size} bytes are more than {budget}")
    yield from check_manifest(image)
    layers_read = LayersRead()
    is_read = _content_filter(tests)
    try:
        yield from check_layers(image, _created_at(image), layers_read, is_read)
        contents = _contents(image, layers_read, tests, is_read)
    except (ArchiveRefused, IntegrityError) as error:
        yield ImageFinding("layout/refused", "", str(error))
        return
    yield from check_files(contents, layers_read.elves, image.platform.architecture)
    yield from check_configuration(image, contents)
    for each in tests:
        yield from check_structure(each, image, contents)


def _content_filter(tests: Sequence[StructureTests]) -> Callable[[bytes], bool]:
    """Select the files whose content the checks need."""
    tested_paths = frozenset[bytes]().union(*(each.paths() for each in tests))

    def is_read(path: bytes) -> bool:
        return needs_content(path) or path in tested_paths or any(each.asks(path) for each in tests)

    return is_read


def _contents(
    image: Image, layers_read: LayersRead, tests: Sequence[StructureTests], is_read: Callable[[bytes], bool]
) -> ImageContents:
    """The image's files, with the content of tested ones; files behind links take a second reading."""
    contents = merge_layers(layers_read.entries)
    tested_paths = frozenset[bytes]().union(*(each.paths() for each in tests))
    named = [*tested_paths, *(path for path in contents.files if any(each.asks(path) for each in tests))]
    real = {contents.tree.resolve(path) for path in named} - {None, *contents.tree.kept}
    if not any(path in contents.files for path in real):
        return contents
    return read_contents(image, algorithms=(), keep=lambda path: is_read(path) or path in real)


def _created_at(image: Image) -> int | None:
    """The creation time in the image's config, in nanoseconds since 1970."""
    try:
        return int(datetime.fromisoformat(str(image.config["created"])).timestamp()) * _NANO
    except (KeyError, ValueError):
        return None
