"""Commands that evaluate a profile, from sandwright or from any other source."""

from __future__ import annotations

import io
import json as encoder
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandwright.cli import console
from sandwright.cli.arguments import read_file
from sandwright.errors import UsageError
from sandwright.evaluate.sbpl.command import evaluate_batch
from sandwright.evaluate.sbpl.command import evaluate_command as evaluate_sbpl
from sandwright.evaluate.sbpl.imports import FileImporter
from sandwright.reading import open_named
from sandwright.seccomp.command import evaluate_command as evaluate_seccomp


def sbpl_eval(
    *,
    profile: str = "",
    operation: str = "",
    resource: Sequence[str] | None = None,
    D: Sequence[str] | None = None,  # noqa: N803 - the option's name, as sandbox-exec has it
    symlink: Sequence[str] | None = None,
    include: Sequence[str] | None = None,
    fragment: bool = False,
    batch: str = "",
    json: bool = False,
) -> None:
    """Show whether a Seatbelt profile allows an operation, and which rule at which line decides."""
    directories = [Path(each) for each in include or ()]
    for each in directories:
        if not each.is_dir():
            raise UsageError(f"--include {each} is no directory")
    if batch:
        importer = FileImporter(directories)
        for answer in evaluate_batch(
            _requests_of_file(batch), file=batch, importer=importer, fragment=fragment
        ):
            console.line(answer)
        return
    if not profile or not operation:
        raise UsageError(
            "usage: sandwright sbpl-eval PROFILE.sb OPERATION [--resource KEY=VALUE ...] [-D KEY=VALUE ...]"
        )
    text, answer_json = evaluate_sbpl(
        read_file(profile),
        operation,
        file=profile,
        resource=resource or (),
        define=D or (),
        symlink=symlink or (),
        importer=FileImporter(directories, trusted=True),
        fragment=fragment,
    )
    console.lines(encoder.dumps(answer_json) if json else text)


def seccomp_eval(
    *,
    profile: str = "",
    syscall: str = "",
    argument: Sequence[str] | None = None,
    arch: str = "amd64",
    cap: Sequence[str] | None = None,
    json: bool = False,
) -> None:
    """Show how a seccomp profile answers a system call, and which rule decides."""
    if not profile or not syscall:
        raise UsageError(
            "usage: sandwright seccomp-eval PROFILE.json SYSCALL [ARG ...] [--arch ARCH] [--cap CAP_X ...]"
        )
    answer = evaluate_seccomp(read_file(profile), profile, syscall, argument or (), arch=arch, caps=cap or ())
    console.lines(encoder.dumps(answer.as_json()) if json else answer.text().rstrip())


def _requests_of_file(file: str) -> Iterator[str]:
    if file == "-":
        yield from sys.stdin
        return
    try:
        with open_named(file) as stream:
            yield from io.TextIOWrapper(stream, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
