"""Starts an image in the way of each case, and compares the user inside with the expected one."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from threading import Event

from sandwright import process
from sandwright.errors import BuildError, HostError, UsageError
from sandwright.host import collect_host
from sandwright.image.documents import split_entrypoint
from sandwright.progress import SILENT, Progress
from sandwright.rootfs.bundles import bundle, convert
from sandwright.rootfs.bundles.identity import read_accounts
from sandwright.rootfs.images.source import Image, open_image
from sandwright.rootfs.securejoin import Root
from sandwright.runtime.contract import Session, Start
from sandwright.runtime.preflight import MissingRuntime
from sandwright.runtime.probe import PROBE, own_probe
from sandwright.runtime.registry import RUNTIMES
from sandwright.runtime.scratch import hidden_directory, scratch_directory
from sandwright.runtime.sessions import Sessions
from sandwright.verify.mapping.cases import ExpectedUser, MappingCase, mapping_cases
from sandwright.verify.mapping.seen import (
    NEW,
    STATUS,
    Lookup,
    SeenUser,
    attempts,
    probe_command,
    seen_user,
)
from sandwright.verify.mapping.starts import PROVED, MappedImage, mapped_image
from sandwright.verify.smoke.report import ImageRow
from sandwright.verify.verdict import ProbeFinding, Verdict
from sandwright.watchdog import Ended, runtime_environment

LIMIT = 120.0
"""Seconds for one start."""

REFUSED = 125
"""The exit status of our first process when it refuses."""


def prove_mapping(
    layout: Path,
    *,
    platform: str,
    store: Path,
    runtimes: Sequence[str] = PROVED,
    only: Collection[str] | None = None,
    progress: Progress = SILENT,
) -> Iterator[ImageRow]:
    """Start an image of a layout in the ways of all cases, or of those in `only`, under each runtime.

    Give a row for each runtime, with a finding for each case. This needs root. Root file systems are unpacked
    into `store`. Raise BuildError for an image without `config.init`, UsageError for an unknown runtime,
    ToolMissing for a missing one, HostError for one that starts nothing here and for callers other than root.
    """
    if os.geteuid() != 0:
        raise HostError("only root can start containers of several users")
    image, host = open_image(layout, platform=platform), collect_host()
    found, lookup = _image_cases(layout, image, store)
    chosen = [case for case in found if only is None or case.name in only]
    with scratch_directory() as scratch, Sessions(host, scratch, Event()) as sessions:
        (scratch / "image").mkdir()
        mapped = mapped_image(
            *(layout, image, platform),
            store=store,
            hidden=hidden_directory(scratch, "image"),
            scratch=scratch / "image",
        )
        for name in runtimes:
            session = _runtime_session(sessions, name, platform)
            started, findings = time.monotonic(), []
            with progress.step(f"mapping under {name}", len(chosen), unit="cases") as step:
                for case in chosen:
                    findings.append(_case_finding(case, fault(session, mapped, case, lookup, scratch)))
                    step.advance(1)
            seconds = time.monotonic() - started
            yield ImageRow(layout.name, platform, image.digest, name, tuple(findings), seconds)


def _runtime_session(sessions: Sessions, name: str, platform: str) -> Session:
    if name not in PROVED:
        raise UsageError(f"no runtime {name!r}; there are {', '.join(PROVED)}")
    runtime = RUNTIMES[name]
    if name != "docker":
        process.which(runtime.program)
    ready = sessions.check(runtime, platform)
    if isinstance(ready, MissingRuntime):
        raise HostError(f"{name} starts nothing here: {ready.describe()}")
    return sessions.session(ready)


def _case_finding(case: MappingCase, fault: str) -> ProbeFinding:
    return ProbeFinding(case.name, Verdict.FAIL if fault else Verdict.PASS, fault)


def _image_cases(layout: Path, image: Image, store: Path) -> tuple[tuple[MappingCase, ...], Lookup]:
    """The cases for an image, and its program that looks names up."""
    account, _ = split_entrypoint(convert.image_section(image.config).get("Entrypoint") or ())
    if account is None:
        raise BuildError(f"{layout}: the image has no config.init")
    rootfs = bundle.unpacked(image, store, rootless=False)
    lookup: Lookup = "python3" if (rootfs.path / "usr/bin/python3").exists() else "id"
    with Root(rootfs.path) as root:
        return mapping_cases(account, read_accounts(root)), lookup


def fault(session: Session, image: MappedImage, case: MappingCase, lookup: Lookup, scratch: Path) -> str:
    """Start a case, and describe its faults; empty for none."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        work = Path(name)
        work.chmod(0o777)
        shutil.copyfile(own_probe(), work / PROBE.name)
        (work / PROBE.name).chmod(0o755)
        word = uuid.uuid4().hex
        attempted = attempts(lookup, case.expected.home if isinstance(case.expected, ExpectedUser) else "/")
        argv = probe_command(attempted, word=word)
        start = Start(image.startable, argv, LIMIT, runtime_environment(), image.run_as(case, work))
        result = session.run(start)
        if isinstance(case.expected, str):
            refused = result.status == REFUSED and case.expected in result.stderr
            return "" if refused else f"was not refused: {_describe_end(result)}"
        if result.status != STATUS:
            return f"did not tell: {_describe_end(result)}"
        seen = seen_user(result.stdout, list(attempted), word=word)
        made = (work / NEW).stat()
        return "; ".join(_user_differences(case, case.expected, seen, (made.st_uid, made.st_gid)))


def _user_differences(
    case: MappingCase, expected: ExpectedUser, seen: SeenUser, made: tuple[int, int]
) -> Iterator[str]:
    has_name = expected.name is not None
    compared: dict[str, tuple[object, object]] = {
        "uid": (expected.uid, seen.uid),
        "gid": (expected.gid, seen.gid),
        "name": (expected.name, seen.name),
        "group": (expected.group, seen.group),
        "$HOME": (expected.home, seen.home),
        "$USER": (expected.name, seen.user if has_name else None),
        "passwd": (f"{expected.name}:{expected.home}" if has_name else None, seen.account),
        "owner of a new file": ((expected.uid, expected.gid), made),
        "rights": ("", seen.rights(of_root=case.user is None)),
    }
    if expected.at_home:
        compared["a file at home"] = ("yes", "yes" if seen.at_home else None)
    for what, (expected_value, found) in compared.items():
        if expected_value != found:
            yield f"{what}: {found!r}, not {expected_value!r}"


def _describe_end(result: Ended) -> str:
    return result.describe().removeprefix("exit ")
