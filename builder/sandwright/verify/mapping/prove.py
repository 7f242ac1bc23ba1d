"""Starts an image in every way that there is a case for, and compares who is found with who must be."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from sandwright import process
from sandwright.errors import BuildError, HostError
from sandwright.image.documents import split_entrypoint
from sandwright.progress import SILENT, Progress
from sandwright.rootfs.bundles import bundle, convert
from sandwright.rootfs.bundles.identity import read_accounts
from sandwright.rootfs.images.source import Image, open_image
from sandwright.rootfs.inroot import Root
from sandwright.runtime.probe import PROBE, own_probe
from sandwright.runtime.scratch import scratch_directory
from sandwright.verify.mapping.cases import ExpectedUser, MappingCase, cases
from sandwright.verify.mapping.seen import (
    NEW,
    STATUS,
    Lookup,
    SeenUser,
    attempts,
    command,
    seen_user,
)
from sandwright.verify.mapping.starts import STARTERS, MappedImage, MappingStart, Starter, starter
from sandwright.verify.smoke.report import ImageRow
from sandwright.verify.verdict import ProbeFinding, Verdict

REFUSED = 125
"""How our first process ends when it refuses."""


def prove_mapping(
    layout: Path,
    *,
    platform: str,
    store: Path,
    runtimes: Sequence[str] = STARTERS,
    only: Collection[str] | None = None,
    progress: Progress = SILENT,
) -> Iterator[ImageRow]:
    """Start an image of a layout in the ways of all cases, or of those in `only`, under each runtime.

    Gives a row for each runtime, with a finding for each case. Only root can. Root file systems are unpacked
    into `store`. Raise BuildError for an image without `config.init`, UsageError for an unknown runtime,
    ToolMissing for one that isn't there, HostError for one that starts nothing here and when we are not root,
    CommandFailed for a start that takes too long.
    """
    if os.geteuid() != 0:
        raise HostError("only root can start containers of several users")
    subject = MappedImage(layout, platform, store)
    image = open_image(layout, platform=platform)
    found, lookup = _known(subject, image)
    chosen = [case for case in found if only is None or case.name in only]
    with scratch_directory() as scratch:
        for runtime in runtimes:
            if runtime in STARTERS:
                process.which(runtime)
            own = scratch / runtime
            own.mkdir()
            started = time.monotonic()
            with (
                starter(runtime, subject, own) as ready,
                progress.step(f"mapping under {runtime}", len(chosen), unit="cases") as step,
            ):
                findings = []
                for case in chosen:
                    findings.append(_finding(case, fault(ready, case, lookup, scratch)))
                    step.advance(1)
            seconds = time.monotonic() - started
            yield ImageRow(layout.name, platform, image.digest, runtime, tuple(findings), seconds)


def _finding(case: MappingCase, fault: str) -> ProbeFinding:
    return ProbeFinding(case.name, Verdict.FAIL if fault else Verdict.PASS, fault)


def _known(subject: MappedImage, image: Image) -> tuple[tuple[MappingCase, ...], Lookup]:
    """The cases for an image, and its program that looks names up."""
    account, _ = split_entrypoint(convert.image_section(image.config).get("Entrypoint") or ())
    if account is None:
        raise BuildError(f"{subject.layout}: the image has no config.init")
    rootfs = bundle.unpacked(image, subject.store, rootless=False)
    lookup: Lookup = "python3" if (rootfs.path / "usr/bin/python3").exists() else "id"
    with Root(rootfs.path) as root:
        return cases(account, read_accounts(root)), lookup


def fault(ready: Starter, case: MappingCase, lookup: Lookup, scratch: Path) -> str:
    """Start a case, and describe what is not as it must be; empty for nothing."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        work = Path(name)
        work.chmod(0o777)
        shutil.copyfile(own_probe(), work / PROBE.name)
        (work / PROBE.name).chmod(0o755)
        word = uuid.uuid4().hex
        asked = attempts(lookup, case.expected.home if isinstance(case.expected, ExpectedUser) else "/")
        result = ready.run(MappingStart(case, command(asked, word=word), work))
        if isinstance(case.expected, str):
            refused = result.status == REFUSED and case.expected in result.stderr
            return "" if refused else f"was not refused: {_ended(result)}"
        if result.status != STATUS:
            return f"did not tell: {_ended(result)}"
        seen = seen_user(result.stdout, list(asked), word=word)
        made = (work / NEW).stat()
        return "; ".join(_differences(case, case.expected, seen, (made.st_uid, made.st_gid)))


def _differences(
    case: MappingCase, expected: ExpectedUser, seen: SeenUser, made: tuple[int, int]
) -> Iterator[str]:
    known = expected.name is not None
    compared: dict[str, tuple[object, object]] = {
        "uid": (expected.uid, seen.uid),
        "gid": (expected.gid, seen.gid),
        "name": (expected.name, seen.name),
        "group": (expected.group, seen.group),
        "$HOME": (expected.home, seen.home),
        "$USER": (expected.name, seen.user if known else None),
        "passwd": (f"{expected.name}:{expected.home}" if known else None, seen.account),
        "owner of a new file": ((expected.uid, expected.gid), made),
        "rights": ("", seen.rights(of_root=case.user is None)),
    }
    if expected.at_home:
        compared["a file at home"] = ("yes", "yes" if seen.at_home else None)
    for what, (wanted, found) in compared.items():
        if wanted != found:
            yield f"{what}: {found!r}, not {wanted!r}"


def _ended(result: process.Result) -> str:
    lines = result.stderr.strip().splitlines()
    return f"status {result.status}" + (f": {lines[-1]}" if lines else "")
