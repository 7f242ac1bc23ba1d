"""Starts an image in every way that there is a case for, and compares who is found with who must be."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.errors import BuildError, HostError
from sandwright.image.documents import split_entrypoint
from sandwright.progress import SILENT, Progress
from sandwright.rootfs.bundles import bundle, convert
from sandwright.rootfs.bundles.identity import read_accounts
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.inroot import Root
from sandwright.runtime.scratch import scratch_directory
from sandwright.verify.mapping.cases import Case, Who, cases
from sandwright.verify.mapping.look import STATUS, Teller, Told, read, script
from sandwright.verify.mapping.starts import STARTERS, Start, Starter, Subject, starter

REFUSED = 125
"""How our first process ends when it refuses."""


@dataclass(frozen=True)
class Outcome:
    """What came of a case under a runtime: `fault` is empty when all was as it must be."""

    case: str
    runtime: str
    fault: str


def prove_mapping(
    layout: Path,
    *,
    platform: str,
    store: Path,
    runtimes: Sequence[str] = STARTERS,
    only: Collection[str] | None = None,
    progress: Progress = SILENT,
) -> Iterator[Outcome]:
    """Start an image of a layout in the ways of all cases, or of those in `only`, under each runtime.

    Only root can. Root file systems are unpacked into `store`. Raise BuildError for an image without
    `config.init`, UsageError for an unknown runtime, ToolMissing for one that isn't there, HostError for one
    that starts nothing here and when we are not root, CommandFailed for a start that takes too long.
    """
    if os.geteuid() != 0:
        raise HostError("only root can start containers of several users")
    subject = Subject(layout, platform, store)
    found, teller = _known(subject)
    chosen = [case for case in found if only is None or case.name in only]
    with scratch_directory() as scratch:
        for runtime in runtimes:
            if runtime in STARTERS:
                process.which(runtime)
            own = scratch / runtime
            own.mkdir()
            with (
                starter(runtime, subject, own) as ready,
                progress.step(f"mapping under {runtime}", len(chosen), unit="cases") as step,
            ):
                for case in chosen:
                    yield Outcome(case.name, runtime, fault(ready, case, teller, scratch))
                    step.advance(1)


def _known(subject: Subject) -> tuple[tuple[Case, ...], Teller]:
    """The cases for an image, and who can tell in it."""
    image = open_image(subject.layout, platform=subject.platform)
    account, _ = split_entrypoint(convert.image_section(image.config).get("Entrypoint") or ())
    if account is None:
        raise BuildError(f"{subject.layout}: the image has no config.init")
    rootfs = bundle.unpacked(image, subject.store, rootless=False)
    teller: Teller = "python3" if (rootfs.path / "usr/bin/python3").exists() else "sh"
    with Root(rootfs.path) as root:
        return cases(account, read_accounts(root)), teller


def fault(ready: Starter, case: Case, teller: Teller, scratch: Path) -> str:
    """Start a case, and say what is not as it must be."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        work = Path(name)
        work.chmod(0o777)
        result = ready.run(Start(case, script(teller), work))
        if isinstance(case.expected, str):
            refused = result.status == REFUSED and case.expected in result.stderr
            return "" if refused else f"was not refused: {_ended(result)}"
        if result.status != STATUS:
            return f"did not tell: {_ended(result)}"
        told = read(result.stdout)
        made = (work / "new").stat()
        return "; ".join(_differences(case, case.expected, told, (made.st_uid, made.st_gid)))


def _differences(case: Case, expected: Who, told: Told, made: tuple[int, int]) -> Iterator[str]:
    known = expected.name is not None
    compared: dict[str, tuple[object, object]] = {
        "uid": (expected.uid, told.number("uid")),
        "gid": (expected.gid, told.number("gid")),
        "name": (expected.name, told.text("name")),
        "group": (expected.group, told.text("group")),
        "$HOME": (expected.home, told.text("home")),
        "$USER": (expected.name, told.text("user") if known else None),
        "passwd": (f"{expected.name}:{expected.home}" if known else None, told.text("account")),
        "owner of a new file": ((expected.uid, expected.gid), made),
        "rights": ("", told.rights(of_root=case.user is None)),
    }
    if expected.at_home:
        compared["a file at home"] = ("yes", told.text("written"))
    for what, (wanted, seen) in compared.items():
        if wanted != seen:
            yield f"{what}: {seen!r}, not {wanted!r}"


def _ended(result: process.Result) -> str:
    lines = result.stderr.strip().splitlines()
    return f"status {result.status}" + (f": {lines[-1]}" if lines else "")
