"""The command that audits images: `sandwright check-image`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sandwright.cli import console
from sandwright.cli.arguments import image_path
from sandwright.errors import SandwrightError, UsageError, VerdictError

if TYPE_CHECKING:
    from sandwright.check.image import CheckResult

_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def check_image(
    *,
    image: str,
    platform: str = "",
    ref: str = "",
    output: str = "build",
    budget: str = "",
    accept: Sequence[str] | None = None,
    structure: Sequence[str] | None = None,
    runtime: str = "",
    json: str = "",
    sarif: str = "",
    junit: str = "",
) -> None:
    """Audit an image. Raise VerdictError for findings that are errors."""
    from sandwright.check import report  # noqa: PLC0415
    from sandwright.check.finding import Waiver  # noqa: PLC0415
    from sandwright.check.image import check_image as run_checks  # noqa: PLC0415
    from sandwright.check.structure import read_tests  # noqa: PLC0415
    from sandwright.rootfs.unpacking.store import write_atomically  # noqa: PLC0415

    path = image_path(image, Path(output))
    waivers = [Waiver.parse(text) for text in accept or ()]
    tests = [read_tests(Path(file)) for file in structure or ()]
    with console.watching() as progress:
        checked = [
            run_checks(
                path,
                platform=each,
                ref=ref or None,
                budget=_bytes(budget) if budget else None,
                waivers=waivers,
                tests=tests,
                runtimes=[name for name in runtime.split(",") if name],
                progress=progress,
            )
            for each in _platforms(path, platform)
        ]
    for file, content in ((json, report.to_json), (sarif, report.to_sarif), (junit, report.to_junit)):
        if file:
            write_atomically(Path(file), content(checked))
    for one in checked:
        _show(one)
    faults = sum(len(one.faults) for one in checked)
    if faults:
        raise VerdictError(f"{image}: {faults} errors")


def _show(checked: CheckResult) -> None:
    for finding in checked.findings:
        console.line(f"{finding}" + (f"; accepted: {finding.waived}" if finding.waived else ""))
    for line in checked.skipped:
        console.line(f"skipped: {line}")
    warnings = sum(1 for each in checked.findings if each.severity == "warning" and not each.waived)
    console.line(
        f"{checked.name} {checked.platform} {checked.digest[:19]}: {checked.layers} layers, "
        f"{console.size(checked.size)}, {len(checked.faults)} errors, {warnings} warnings"
    )


def _platforms(path: Path, platform: str) -> Iterator[str | None]:
    """The platforms to audit: `platform`, all of a layout of ours, or this machine's if there are several."""
    from sandwright.host import collect_host  # noqa: PLC0415
    from sandwright.image.existing import read_layout  # noqa: PLC0415
    from sandwright.rootfs.images.source import open_image  # noqa: PLC0415

    if platform:
        yield platform
        return
    try:
        yield from read_layout(path).images
    except SandwrightError:
        try:
            open_image(path)
            yield None
        except UsageError:
            yield collect_host().platform


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text)
    if match is None or match[2].lower() not in _UNITS:
        raise UsageError(f"'{text}' is no size; write 80MB or 80MiB")
    return int(float(match[1]) * _UNITS[match[2].lower()])
