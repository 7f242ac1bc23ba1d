"""A stranger's text controls no terminal: control characters and marks that reverse text are escaped.

Tests of visible.py.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sandwright import process
from sandwright.cli import console
from sandwright.visible import visible
from support.standby import COMMAND as SANDWRIGHT

HOSTILE = "\x1b]0;title\x07\x1b[2Jx\x9b31m\u202egnp.exe\u2066"
FORBIDDEN = ("\x1b", "\x07", "\x9b", "\u202e", "\u2066")


def _harmless(text: str) -> None:
    assert not [each for each in FORBIDDEN if each in text], ascii(text)


def _call(*words: str, cwd: Path) -> str:
    """Both outputs of our program."""
    environ = {**os.environ, "HOME": str(cwd), "XDG_RUNTIME_DIR": str(cwd / "run"), "LC_ALL": "C.UTF-8"}
    (cwd / "run").mkdir(mode=0o700, exist_ok=True)
    done = subprocess.run(
        [*SANDWRIGHT, *words], cwd=cwd, env=environ, capture_output=True, timeout=120, check=False
    )
    return (done.stdout + done.stderr).decode("utf-8", "backslashreplace")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("\a\x7f\x9b\r", r"\x07\x7f\x9b\r"),
        ("\u202egnp\u2066\u200f\u2028", r"\u202egnp\u2066\u200f\u2028"),
        ("\udc80", r"\udc80"),
        ("käse 文字 🙂\tx\n", "käse 文字 🙂\tx\n"),
        ("a\\b", "a\\b"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    console.line(HOSTILE)
    console.write(f"{HOSTILE}\n")
    console.warn(f"a\n{HOSTILE}")
    console.table(["name"], [[HOSTILE]], title=HOSTILE)
    with console.watching() as progress:
        progress.note(HOSTILE)
        with progress.step(HOSTILE):
            pass
    shown = capsys.readouterr()
    _harmless(shown.out + shown.err)
    assert shown.out.count(r"\x1b]0;title\x07") >= 3


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--policy", f"{HOSTILE}.yaml", "--", "true"),
        ("run", f"--{HOSTILE}", "--", "true"),
        ("render", "--policy", f"{HOSTILE}.yaml"),
        ("lint", f"{HOSTILE}.yaml"),
        ("lint-image", HOSTILE),
        ("explain", "read", HOSTILE, "--policy", f"{HOSTILE}.yaml"),
    ],
    ids=lambda words: words[0],
)
def test_a_path_that_is_not_there(tmp_path: Path, words: tuple[str, ...]) -> None:
    shown = _call(*words, cwd=tmp_path)
    assert "title" in shown, shown
    _harmless(shown)


def test_a_policy(tmp_path: Path) -> None:
    quoted = HOSTILE.encode("unicode_escape").decode()
    policy = f'schema: 1\nmethod: bwrap\nfilesystem: {{read: ["/srv/{quoted}"], write: ["/{quoted}"]}}\n'
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "sandbox.yaml").write_text(policy)
    environ = {**os.environ, "SANDWRIGHT_TRUST": ""}
    for words in (("trust",), ("run", "--", "true"), ("lint", "sandbox.yaml"), ("render",)):
        done = subprocess.run(
            [*SANDWRIGHT, *words],
            cwd=tmp_path / "p",
            env={**environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )
        _harmless((done.stdout + done.stderr).decode("utf-8", "backslashreplace"))


@pytest.mark.needs("bwrap", "bash", "busybox")
@pytest.mark.parametrize("method", ["bwrap", "oci", "docker", "user", "seatbelt"])
def test_a_launcher(tmp_path: Path, method: str) -> None:
    """The launcher prints its own path, which may be a directory of a stranger's repository."""
    project = tmp_path / "p"
    project.mkdir()
    lacks = f"accept_gaps: [{{feature: network.none, method: {method}, reason: x}}]"
    (project / "sandbox.yaml").write_text(
        f"schema: 1\nmethod: {method}\nresources: {{memory: unlimited, pids: unlimited}}\n{lacks}\n"
    )
    out = tmp_path / f"out{HOSTILE}"
    shown = _call("render", "--policy", "p/sandbox.yaml", "--out", str(out), cwd=tmp_path)
    _harmless(shown)
    launcher = out / method / "launch"
    assert launcher.exists(), shown
    for artifact in (path for path in launcher.parent.iterdir() if path.name != "launch"):
        artifact.write_bytes(artifact.read_bytes() + b"#")
    shells = [[], ["bash"], ["busybox", "ash"]] if launcher.read_bytes().startswith(b"#!") else [[]]
    for shell in shells:
        done = process.run(*shell, launcher, "true", cwd=tmp_path, check=False, timeout=60)
        assert done.status == 125, done
        assert "sandbox: " in done.stderr
        _harmless(done.stderr)


def test_a_proposal(tmp_path: Path) -> None:
    """The proposal for a repository with names that a stranger chose."""
    project = tmp_path / f"p{HOSTILE}"
    project.mkdir()
    for name in (f"{HOSTILE}.pem", ".npmrc", ".env", f".env.{HOSTILE}"):
        (project / name).write_text("x")
    process.run("git", "init", "-q", project)
    process.run("git", "-C", project, "add", "--all")
    shown = _call("init", "--method", "bwrap", "--yes", "--directory", str(project), cwd=tmp_path)
    assert (project / "sandbox.yaml").exists(), shown
    assert "is written" in shown
    _harmless(shown)


def test_the_reason_of_noop(tmp_path: Path) -> None:
    project = tmp_path / "p"
    project.mkdir()
    (project / "sandbox.yaml").write_text("schema: 1\nmethod: noop\nreason: a \u202eb\n")
    shown = _call("run", "--policy", "p/sandbox.yaml", "--trust-policy", "--", "true", cwd=tmp_path)
    assert "enforcement=none: a \\u202eb" in shown
    _harmless(shown)
