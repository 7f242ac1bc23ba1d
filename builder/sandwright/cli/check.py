"""The command that audits images: `sandwright lint-image`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sandwright.check import report
from sandwright.check.finding import Waiver
from sandwright.check.image import CheckResult
from sandwright.check.image import check_image as run_checks
from sandwright.check.structure import read_tests
from sandwright.checked import Checked
from sandwright.cli import console
from sandwright.cli.arguments import build_directory, image_path, names
from sandwright.errors import UsageError, VerdictError
from sandwright.outputs import write_output
from sandwright.release.packages import LANGUAGES
from sandwright.release.sbom import take_inventory
from sandwright.release.vex import Vex, check_expiry, load_vex
from sandwright.release.vulnerabilities import OsvDatabase, assess, read_osv
from sandwright.rootfs.images.source import list_images, open_image

_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def lint_image(
    *,
    image: str,
    platform: str = "",
    ref: str = "",
    output: str = "",
    budget: str = "",
    accept: Sequence[str] | None = None,
    structure: Sequence[str] | None = None,
    runtime: str = "",
    vulnerabilities: str = "",
    vex: Sequence[str] | None = None,
    json: str = "",
    sarif: str = "",
    junit: str = "",
) -> Checked:
    """Audit every image that fits. Raise VerdictError for findings that are errors."""
    runtimes = names(runtime, "--runtime")
    path = image_path(image, build_directory(output))
    waivers = [Waiver.parse(text) for text in accept or ()]
    tests = [read_tests(Path(file)) for file in structure or ()]
    if runtime and not any(each.commands for each in tests):
        raise UsageError("--runtime needs commandTests in a file of --structure: nothing else is run")
    scan = _scanner(vulnerabilities, vex or ())
    other: list[str] = []
    with console.watching() as progress:
        checked = [
            run_checks(
                path,
                ref=each,
                budget=_parse_size(budget) if budget else None,
                waivers=waivers,
                tests=tests,
                runtimes=runtimes,
                progress=progress,
            )
            for each in _image_digests(path, platform, ref, other)
        ]
    for file, content in ((json, report.to_json), (sarif, report.to_sarif), (junit, report.to_junit)):
        if file:
            write_output(file, content(checked))
    for one in checked:
        _print_result(one)
    for line in other:
        console.line(f"skipped: {line}")
    faults = sum(len(one.faults) for one in checked)
    if scan is not None:
        faults += sum(_print_vulnerabilities(scan, path, one) for one in checked)
    if faults:
        raise VerdictError(f"{image}: {faults} errors")
    found = [finding for one in checked for finding in one.findings]
    if stale := [each for each in waivers if not any(each.covers(finding) for finding in found)]:
        raise VerdictError(f"{image}: no finding for --accept {', '.join(map(str, stale))}: leave it out")
    return Checked(len(checked), why="; ".join(other))


@dataclass(frozen=True)
class _Scanner:
    """A database of vulnerabilities, and the statements about them."""

    database: OsvDatabase
    statements: Sequence[Vex]


def _scanner(database: str, files: Sequence[str]) -> _Scanner | None:
    """The scanner for `--vulnerabilities` and `--vex`. Raise IntegrityError for an expired statement."""
    if not database:
        if files:
            raise UsageError("--vex is for --vulnerabilities; give that too")
        return None
    statements = [load_vex(Path(file)) for file in files]
    for file, each in zip(files, statements, strict=True):
        check_expiry(each, datetime.now(UTC).date(), file)
    return _Scanner(read_osv(Path(database)), statements)


def _print_vulnerabilities(scan: _Scanner, path: Path, checked: CheckResult) -> int:
    """Print the known vulnerabilities of an image's packages; the number of those that are open."""
    inventory = take_inventory(checked.name, open_image(path, ref=checked.digest))
    assessments = assess(scan.database.find(inventory), scan.statements)
    for each in assessments:
        console.line(f"{'error' if each.is_open else 'stated'}: vulnerability: {each}")
    count = sum(each.is_open for each in assessments)
    compared = sum(each.kind not in LANGUAGES for each in inventory.packages)
    other = len(inventory.packages) - compared
    more = f"; {other} packages of programming languages were not compared" if other else ""
    where = f"{checked.name} {checked.platform}"
    console.line(f"{where}: {count} open vulnerabilities of {compared} packages{more}")
    return count


def _print_result(checked: CheckResult) -> None:
    for finding in checked.findings:
        console.line(f"{finding}" + (f"; accepted: {finding.waived}" if finding.waived else ""))
    for line in checked.skipped:
        console.line(f"skipped: {line}")
    warnings = sum(1 for each in checked.findings if each.severity == "warning" and not each.waived)
    console.line(
        f"{checked.name} {checked.platform} {checked.digest[:19]}: {checked.layers} layers, "
        f"{console.size(checked.size)}, {len(checked.faults)} errors, {warnings} warnings"
    )


def _image_digests(path: Path, platform: str, ref: str, other: list[str]) -> Iterator[str]:
    """The digests of all images that fit; those of other systems are only named in `other`."""
    for each in list_images(path, platform=platform or None, ref=ref or None):
        if each.platform.os == "linux":
            yield each.digest
        else:
            other.append(f"{each.platform} {each.digest[:19]}: only images for Linux are checked")


def _parse_size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text)
    if match is None or match[2].lower() not in _UNITS:
        raise UsageError(f"'{text}' is no size; write 80MB or 80MiB")
    return int(float(match[1]) * _UNITS[match[2].lower()])
