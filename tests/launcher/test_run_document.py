"""The run document, and the program in it that the launcher executes at its end.

Tests of launcher/run_document.py.
Tests of launcher/source/finish.c: the program that the launcher executes at its end.
Tests of launcher/source/main.c.
Tests of launcher/source/run_document.c.
Tests of launcher/source/run_fields.h.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sandwright.launcher import LAUNCH
from sandwright.launcher.plan import fields_of, parse_document
from sandwright.launcher.run_document import HEAD, RunDocument, run_document_bytes
from support.rundocuments import launching

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
SHOW = 'echo "$@"; env; exit "$1"'


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """The launcher without a plan, which it refuses."""
    folder = tmp_path / "out"
    folder.mkdir()
    return Path(shutil.copy(LAUNCH.path(f"linux/{MACHINES[platform.machine()]}"), folder / "launch"))


def _ended(launcher: Path, *after: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [launching(launcher, RunDocument(post_run=after)), "true"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"]},
    )


def test_it_gets_the_status(launcher: Path) -> None:
    ended = _ended(launcher, "/bin/sh", "-c", SHOW, "sh")
    shown = ended.stdout.splitlines()
    assert (ended.returncode, shown[0]) == (125, "125")
    assert ended.stderr.startswith("sandbox: ")
    assert f"PATH={os.environ['PATH']}" in shown


@pytest.mark.parametrize(
    ("descriptor", "content", "said"),
    [
        ("x", b"", "--run needs the number of a descriptor"),
        ("-1", b"", "--run needs the number of a descriptor"),
        ("77", b"", "cannot read the run document: No such file or directory"),
        ("9", b"", "the run document: it is not a run document"),
        ("9", b"sandwright-run\0002\0end\0", "the run document: it has version 2"),
        ("9", b"sandwright-run\0001\0post_run\0001\0/bin/echo\0", "the run document: end: missing"),
        (
            "9",
            b"sandwright-run\0001\0method\0001\0bwrap\0end\0",
            "the run document: method: unknown field",
        ),
    ],
)
def test_a_document_that_is_none(
    launcher: Path, tmp_path: Path, descriptor: str, content: bytes, said: str
) -> None:
    """Neither the command nor the post-run command is started."""
    (tmp_path / "document").write_bytes(content)
    opened = (tmp_path / "document", launcher, "--run", descriptor, "true")
    ended = subprocess.run(
        ["/bin/sh", "-c", 'exec 9<"$0"; exec "$@"', *opened],
        capture_output=True, text=True, check=False, timeout=60, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (125, "")
    assert ended.stderr.startswith(f"sandbox: {said}")


def test_both_have_the_same_fields() -> None:
    text = (LAUNCH.source / "run_fields.h").read_text()
    table = {name: kind for kind, name in re.findall(r"^FIELD\((\w+), (\w+)\)", text, re.MULTILINE)}
    assert list(table.items()) == list(fields_of(RunDocument).items())


def test_what_is_written_is_read() -> None:
    full = RunDocument(
        post_run=("/a", "b\nc"), denials="/d", journal="/j", record="/r", record_calls=("1", "2"),
        record_uses=True, egress="/e", shims="/s", channel=7, cidfile="/c",
    )  # fmt: skip
    for document in (full, RunDocument()):
        assert parse_document(RunDocument, run_document_bytes(document), HEAD) == document


def test_one_that_cant_be_started_leaves_the_status(launcher: Path) -> None:
    ended = _ended(launcher, "/nonexistent", "x")
    assert (ended.returncode, ended.stdout) == (125, "")
    assert "sandbox: cannot start /nonexistent: No such file or directory" in ended.stderr
