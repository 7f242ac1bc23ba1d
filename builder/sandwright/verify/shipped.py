"""Proves the shipped presets, each in a new project."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sandwright.errors import UsageError
from sandwright.policy.names import GENERAL, PRESETS
from sandwright.policy.trusted import BUILD
from sandwright.progress import SILENT, Progress
from sandwright.runtime.scratch import scratch_directory
from sandwright.session.request import RunRequest
from sandwright.verify import command
from sandwright.verify.report import PolicyReport

_POLICY = "schema: 1\nextends: [{preset}]\nfilesystem: {{write: [$PROJECT]}}\n"


def prove_presets(
    names: Sequence[str],
    methods: str,
    *,
    output: Path,
    progress: Progress = SILENT,
) -> Iterator[tuple[str, tuple[PolicyReport, tuple[str, ...]]]]:
    """Each preset's name with the result of `verify_policy` for it; absent names mean those for any work.

    Images are taken from `output` where it holds any. Raise UsageError for a preset that there is not.
    """
    for name in names:
        if name not in PRESETS:
            raise UsageError(f"there is no preset {name!r}; there is {', '.join(PRESETS)}")
    with _built_in(output):
        for name in dict.fromkeys(names or GENERAL):
            with scratch_directory() as scratch:
                policy = scratch / "project" / "sandbox.yaml"
                policy.parent.mkdir()
                policy.write_text(_POLICY.format(preset=name), encoding="utf-8")
                report, named = command.verify_policy(
                    RunRequest([], policy=str(policy)), methods, progress=progress
                )
            origin = replace(report.origin, project="a new one", commit="")
            yield name, (replace(report, policy=f"preset {name}", origin=origin), named)


@contextlib.contextmanager
def _built_in(output: Path) -> Iterator[None]:
    """Set where methods look for images, for the length of a `with`; the caller's setting goes first."""
    if BUILD in os.environ or not (output / "images").is_dir():
        yield
        return
    os.environ[BUILD] = str(output.absolute())
    try:
        yield
    finally:
        del os.environ[BUILD]


def write_preset_report(report: PolicyReport, folder: Path, *, faults: Sequence[str]) -> None:
    """The report in its three forms."""
    names = {form: str(folder / name) for form, name in _FILES.items()}
    command.write_reports(report, json=names["json"], junit=names["junit"], html=names["html"], faults=faults)


_FILES = {"json": "verify.json", "junit": "junit.xml", "html": "verify.html"}
