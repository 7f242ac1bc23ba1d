"""The search of a command line for its policy, and its message where there is none.

Tests of user_dirs.py: the nearest policy (find_above).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.standby import COMMAND as SANDWRIGHT

POLICY = "schema: 1\nmethod: bwrap\n"
WITHOUT = "no sandbox.yaml here or above: taking preset default, method bwrap; "


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="sandwright-test-") as made:
        (Path(made) / "home" / "p" / "a" / "b").mkdir(parents=True)
        yield Path(made) / "home"


def _run(home: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "LC_ALL": "C.UTF-8",
    }
    return subprocess.run(
        [*SANDWRIGHT, *words], cwd=cwd, env=environ, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.needs("bwrap")
def test_a_policy_is_found_above_and_the_command_runs_here(home: Path) -> None:
    (home / "p" / "sandbox.yaml").write_text(POLICY)
    inside = home / "p" / "a" / "b"
    done = _run(
        home, "run", "--", "sh", "-c", "pwd; touch ../../made; touch ~/x 2>/dev/null || echo held", cwd=inside
    )
    assert (done.returncode, done.stdout) == (0, f"{inside}\nheld\n"), done.stderr
    assert (home / "p" / "made").exists()
    assert _run(home, "explain", "write", "x", cwd=inside).stdout.startswith(f"write {inside}/x: allowed")
    assert _run(home, "render", cwd=inside).returncode == 0
    assert (home / "p" / ".sandbox" / ".gitignore").read_text() == "*\n"
    assert not (inside / ".sandbox").exists()


@pytest.mark.needs("bwrap")
def test_a_policy_in_the_home_or_above_is_none_of_the_projects(home: Path) -> None:
    for place in (home, home.parent):
        (place / "sandbox.yaml").write_text(POLICY)
    done = _run(home, "run", "--", "sh", "-c", "touch made; touch ../made", cwd=home / "p" / "a")
    assert done.stderr.startswith(f"sandwright: {WITHOUT}"), done.stderr
    assert ((home / "p/a/made").exists(), (home / "p/made").exists()) == (True, False)


@pytest.mark.needs("bwrap")
def test_without_a_policy_the_preset_holds_and_each_run_says_so(home: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text("KEY")
    script = "echo x > made; cat ~/.ssh/id_rsa; echo y > ../a"
    first, second = (_run(home, "run", "--", "sh", "-c", script, cwd=home / "p") for _ in range(2))
    assert (home / "p" / "made").exists()
    assert first.stderr == second.stderr
    assert first.stderr.startswith(f"sandwright: {WITHOUT}`sandwright init` writes a policy to keep\ncat: ")
    assert "KEY" not in first.stdout
    (home / "p" / "sandbox.yaml").write_text(POLICY + "filesystem: {write: []}\n")
    third = _run(home, "run", "--", "sh", "-c", "echo z > made", cwd=home / "p")
    assert "Read-only file system" in third.stderr
    assert "no sandbox.yaml" not in third.stderr


@pytest.mark.parametrize("words", [(), ("--preset", "default")], ids=["nothing", "a preset"])
def test_without_a_policy_no_home_is_a_project(home: Path, words: tuple[str, ...]) -> None:
    for folder in (home, home.parent):
        done = _run(home, "run", *words, "--", "true", cwd=folder)
        assert (done.returncode, done.stderr.count("\n")) == (125, 1)
        assert f"there is no sandbox.yaml here, and {folder} holds your whole home directory" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_policy_in_somebody_elses_directory_is_not_taken(home: Path) -> None:
    (home / "p" / "sandbox.yaml").write_text(POLICY)
    os.chown(home / "p", 65534, 65534)
    done = _run(home, "run", "--", "true", cwd=home / "p" / "a")
    assert done.stderr.startswith(f"sandwright: {WITHOUT}"), done.stderr


@pytest.mark.needs("bwrap")
def test_another_directory(home: Path) -> None:
    (home / "p" / "sandbox.yaml").write_text(POLICY)
    done = _run(home, "-C", "p/a", "run", "--", "pwd", cwd=home)
    assert done.stdout == f"{home}/p/a\n", done.stderr
    for words in (("-C",), ("-C", "nowhere", "run", "--", "true")):
        done = _run(home, *words, cwd=home)
        assert (done.returncode, done.stderr.count("\n")) == (64, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--", "true"), "a command is run by `sandwright run -- COMMAND`"),
        (("rnu", "--", "true"), "there is no command 'rnu'; did you mean 'run'?"),
        (("frobnicate",), "there is no command 'frobnicate'; see `sandwright --help`"),
    ],
)
def test_what_is_no_command_is_told_in_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    done = _run(home, *words, cwd=home)
    assert (done.returncode, done.stderr) == (64, f"sandwright: {said}\n")


def test_a_directory_that_was_removed_is_told(home: Path) -> None:
    words = " ".join(f"'{each}'" for each in (*SANDWRIGHT, "run", "--preset", "default", "--", "true"))
    script = f"mkdir gone; cd gone; rmdir ../gone; exec {words}"
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(
        ["sh", "-c", script], cwd=home, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (
        125,
        "sandwright: the current directory was removed: change into one that is there\n",
    )


@pytest.mark.needs("bwrap")
def test_a_program_below_tmp_is_told_unless_the_policy_lists_it(home: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="sandwright-test-") as made:
        program = Path(made, "program")
        program.write_text("#!/bin/sh\necho ran\n")
        program.chmod(0o755)
        (home / "p" / "sandbox.yaml").write_text(POLICY)
        done = _run(home, "run", "--", str(program), cwd=home / "p")
        assert done.returncode == 125
        assert "the sandbox has a private, empty /tmp" in done.stderr
        listed = f'filesystem.read=["...", {made}]'
        done = _run(home, "run", "--set", listed, "--", str(program), cwd=home / "p")
        assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
