"""The command line is read as people write it, and errors become exits with their own codes."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from sandwright import process
from sandwright.cli.console import size
from sandwright.cli.program import arranged, main

SANDWRIGHT = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")


@pytest.mark.parametrize("words", [("--help", "lint"), ("lint", "--help"), ("build-images", "-h")])
def test_help_explains_every_option(words: tuple[str, ...]) -> None:
    told = process.run(*SANDWRIGHT, *words, timeout=60).text
    options = [line for line in told.splitlines() if line.startswith("  -")]
    assert options, told
    assert not [line for line in options if not re.search(r"[a-zA-Z]  +[a-zA-Z0-9]", line)], told


@pytest.mark.parametrize("told", [False, True])
def test_bytecode_is_kept_unless_python_is_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", told)
    with pytest.raises(SystemExit):
        main(["sandwright", "lint", "nothing.of-the-kind"])
    assert sys.dont_write_bytecode is told


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["--list"], ["--list"], id="options of the program stay"),
        pytest.param(["lint", "--help"], ["--help", "lint"], id="help is no value of a place"),
        pytest.param(["bundle", "x", "-h"], ["--help", "bundle"], id="help behind other words"),
        pytest.param(["bundle", "x", "--", "a", "--help"], ["bundle", "x"], id="help of the command inside"),
        pytest.param(
            [
                "sbpl-eval",
                "p.sb",
                "file-read-data",
                "--resource",
                "path=/a",
                "vnode-type=DIRECTORY",
                "-D",
                "A=1",
                "B=2",
            ],
            [
                *["sbpl-eval", "--profile=p.sb", "--operation=file-read-data"],
                *["--resource", "path=/a", "--resource", "vnode-type=DIRECTORY", "-D", "A=1", "-D", "B=2"],
            ],
            id="several values",
        ),
        pytest.param(
            ["sbpl-eval", "-D", "A=1", "p.sb", "signal"],
            ["sbpl-eval", "-D", "A=1", "--profile=p.sb", "--operation=signal"],
            id="places behind options",
        ),
        pytest.param(
            ["seccomp-eval", "p.json", "openat", "-100", "0x0", "--arch", "arm64"],
            [
                "seccomp-eval",
                "--profile=p.json",
                "--syscall=openat",
                "--argument=-100",
                "--argument=0x0",
                "--arch",
                "arm64",
            ],
            id="negative numbers are no options",
        ),
        pytest.param(
            ["bundle", "debian", "--minimal", "/bin/a", "/bin/b", "--platform", "linux/amd64"],
            ["bundle", "debian", "--minimal", "/bin/a", "--minimal", "/bin/b", "--platform", "linux/amd64"],
            id="programs of a minimal bundle",
        ),
        pytest.param(
            ["bundle", "--minimal", "/bin/a", "debian"],
            ["bundle", "--minimal", "/bin/a", "debian"],
            id="an image behind programs",
        ),
        pytest.param(
            ["bundle", "debian", "--", "sh", "-c", "a"],
            ["bundle", "debian"],
            id="a command is left to the task",
        ),
        pytest.param(["build-images", "--dry-run"], ["build-images", "--dry-run"], id="flags take no value"),
    ],
)
def test_words_are_arranged(words: list[str], expected: list[str]) -> None:
    assert arranged(words) == expected


def _sandwright(*words: str, cwd: Path) -> process.Result:
    return process.run(*SANDWRIGHT, *words, cwd=cwd, check=False, timeout=60)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param(
            ["sbpl-eval", "bad.sb", "signal"],
            2,
            "sandwright: bad.sb:1:13: this list is never closed",
            id="document",
        ),
        pytest.param(
            ["bundle", "nothing"],
            64,
            "sandwright: there is no image 'nothing': "
            "neither build/images/nothing nor a file or directory of that name",
            id="usage",
        ),
        pytest.param(
            ["build-images", "--name", "debain"],
            64,
            "sandwright: there is no image 'debain'; "
            "there is alpine, debian, distroless, gvisor, proxy, workspace",
            id="no such image",
        ),
        pytest.param(
            ["setup", "--group", "bild"],
            64,
            "sandwright: no group bild; there are build, smoke, test",
            id="no such group",
        ),
    ],
)
def test_errors_become_exits(words: list[str], code: int, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.sb").write_text("(version 1) (allow")
    result = _sandwright(*words, cwd=tmp_path)
    assert (result.status, result.stderr.strip(), result.stdout) == (code, message, b"")


def test_evaluators_answer(tmp_path: Path) -> None:
    (tmp_path / "p.sb").write_text(
        '(version 1)\n(deny default)\n(allow file-read* (subpath (param "TOP")))\n'
    )
    words = ["sbpl-eval", "p.sb", "file-read-data", "--resource", "path=/top/a", "-D", "TOP=/top", "--json"]
    answer = json.loads(_sandwright(*words, cwd=tmp_path).stdout)
    assert (answer["decision"], answer["stage"], answer["line"]) == ("allow", "filtered rule", 3)

    profile, resource = "(version 1)(deny default)", {"path": "/a"}
    question = {"id": "q", "profile": profile, "op": "file-read-data", "resource": resource}
    (tmp_path / "b.jsonl").write_text(json.dumps(question) + "\n")
    batch = _sandwright("sbpl-eval", "--batch", "b.jsonl", cwd=tmp_path)
    assert json.loads(batch.stdout)["decision"] == "deny"

    (tmp_path / "s.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}')
    assert (
        _sandwright("seccomp-eval", "s.json", "ptrace", cwd=tmp_path).text.splitlines()[0] == "SCMP_ACT_ALLOW"
    )


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_signals_end_with_their_codes(number: int, code: int, tmp_path: Path) -> None:
    fifo = tmp_path / "questions"
    os.mkfifo(fifo)  # nobody writes: the program waits
    with process.start(*SANDWRIGHT, "sbpl-eval", "--batch", str(fifo), cwd=tmp_path) as running:
        writer = os.open(fifo, os.O_WRONLY)  # returns once the program reads, so past its start
        time.sleep(0.2)
        running.send_signal(number)
        assert running.wait(timeout=20) == code
        os.close(writer)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (17_816_543, "17.8 MB"), (5_000_000_000_000, "5000.0 GB")],
)
def test_sizes_are_read_by_people(count: int, text: str) -> None:
    assert size(count) == text
