"""alcless, against a stand-in for `alclessctl`: it records its arguments, and there is no account.

The tests show the rendered commands, the copies, and the ends of runs. Only macOS shows the isolation of an
account (.github/workflows/macos.yml).

Tests of methods/alcless/explain.py.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandwright.api import Policy
from sandwright.errors import RenderError
from sandwright.methods.alcless.render import instance_of
from sandwright.methods.registry import render
from sandwright.methods.shared.artifacts import write_artifacts
from sandwright.policy.collect import collect_facts

pytestmark = pytest.mark.needs("rsync", "shasum")

DEGRADED = (
    "filesystem.deny",
    "filesystem.links",
    "filesystem.tmp-private",
    "network.none",
    "network.no-sockets",
    "process.unprivileged",
)
POLICY = """\
schema: 1
method: alcless
filesystem:
  write: [$PROJECT]
  readonly: [$PROJECT/LICENSE, $PROJECT/starred]
  deny: [$PROJECT/.env]
environment: {set: {SET: "it's #1"}}
"""
ACCEPTED = "accept_gaps:\n" + "".join(
    f"  - {{feature: {name}, method: alcless, reason: a test}}\n" for name in DEGRADED
)


@dataclass(frozen=True)
class Rendered:
    """A project, its rendered artifacts, and the stand-in's homes and arguments."""

    project: Path
    out: Path
    place: Path
    instance: str

    def run(self, name: str, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(__file__).parent}:{os.environ['PATH']}"
        temporary = self.place / "tmp"
        temporary.mkdir(exist_ok=True)
        environ = {"PATH": path, "ALCLESS_STANDIN": str(self.place), "TMPDIR": str(temporary), **extra}
        return subprocess.run(
            [self.out / name, *words],
            capture_output=True, text=True, timeout=60, check=False, cwd=self.project, env=environ,
        )  # fmt: skip

    def calls(self) -> list[list[str]]:
        calls = (self.place / "calls").read_text().split("\036")[:-1]
        return [call.split("\037")[:-1] for call in calls]

    def files(self) -> Mapping[str, str]:
        found = (path for path in sorted(self.project.rglob("*")) if path.is_file())
        return {str(path.relative_to(self.project)): path.read_text() for path in found}


def _rendered(base: Path, text: str = POLICY + ACCEPTED) -> Rendered:
    project, place = base / "app", base / "stand-in"
    (project / ".git/hooks").mkdir(parents=True)
    place.mkdir()
    for name in ("LICENSE", "file", ".env", "a*b", "aXb", ".git/config"):
        (project / name).write_text(f"{name}\n")
    (project / "starred").symlink_to("a*b")
    policy = Policy.from_text(text)
    resolved = policy.resolve(collect_facts(policy, project=project, environ={"HOME": str(base)}))
    write_artifacts(base / "out", render(resolved, "alcless").artifacts)
    return Rendered(project, base / "out", place, instance_of(resolved))


def test_what_it_can_not_do_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RenderError) as caught:
        _rendered(tmp_path, POLICY)
    refused = [line.split("enforce ")[1].split(" ")[0] for line in str(caught.value).splitlines()[:-1]]
    assert refused == list(DEGRADED)


def test_nothing_is_made_before_a_yes(tmp_path: Path) -> None:
    rendered = _rendered(tmp_path)
    command = f"alclessctl --tty=false --plain create {rendered.instance}\n"
    said = rendered.run("set-up")
    assert (said.returncode, said.stdout) == (3, command)
    assert not (rendered.place / "calls").exists()
    said = rendered.run("launch", "true")
    assert (said.returncode, "has no instance" in said.stderr) == (125, True)
    assert rendered.run("set-up", "--yes").returncode == 0
    assert rendered.calls()[-1] == ["--tty=false", "--plain", "create", rendered.instance]
    assert rendered.run("launch", "true").returncode == 0
    assert rendered.run("set-up", "--remove").returncode == 3
    assert rendered.run("set-up", "--remove", "--yes").returncode == 0
    assert rendered.calls()[-1] == ["--tty=false", "--plain", "delete", rendered.instance]


def test_a_copy_is_changed_and_only_what_may_change_comes_back(tmp_path: Path) -> None:
    rendered = _rendered(tmp_path)
    rendered.run("set-up", "--yes")
    before = rendered.files()
    script = """
        [ ! -e .env ] && cat LICENSE file && pwd
        for name in LICENSE file 'a*b' aXb .env .git/config .git/hooks/x .bashrc sandbox.yaml made; do
            echo changed >"$name"
        done
    """
    said = rendered.run("launch", "sh", "-c", script)
    assert said.returncode == 0, said.stderr
    assert said.stdout.split() == ["LICENSE", "file", f"{rendered.place}/{rendered.instance}/workspace"]
    changed = dict.fromkeys(("file", "aXb", "made"), "changed\n")
    assert rendered.files() == {**before, **changed}
    assert rendered.run("launch", "rm", "file", "LICENSE").returncode == 0
    assert "file" not in rendered.files()
    assert "LICENSE" in rendered.files()
    assert list((rendered.place / "tmp").iterdir()) == []


def test_the_command_gets_its_words_and_variables(tmp_path: Path) -> None:
    rendered = _rendered(tmp_path)
    rendered.run("set-up", "--yes")
    given = {"LANG": 'it\'s\n $(false) "x" \\n\n', "LOST": "lost-word", "TERM": ""}
    words = ["a b", "", "'", '"', "$HOME", "\n", "*"]
    tell = 'printf "%s\\0" "$LANG" "$SET" "${LOST-no}" "$HOME" "$@"'
    said = rendered.run("launch", "sh", "-c", tell, "sh", *words, **given)
    home = f"{rendered.place}/{rendered.instance}"
    assert said.stdout.split("\0")[:-1] == [given["LANG"], "it's #1", "no", home, *words]
    assert "lost-word" not in (rendered.place / "calls").read_text()
    assert "$(false)" not in (rendered.place / "calls").read_text(), "no value is an argument"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 42"], 42),
        (["sh", "-c", "kill -9 $$"], 137),
        (["no-such"], 127),
        ([], 125),
    ],
    ids=["0", "42", "KILL", "no-program", "nothing"],
)
def test_it_exits_as_the_command_does(tmp_path: Path, words: list[str], status: int) -> None:
    rendered = _rendered(tmp_path)
    rendered.run("set-up", "--yes")
    assert rendered.run("launch", *words).returncode == status


def test_time_is_up(tmp_path: Path) -> None:
    rendered = _rendered(tmp_path, POLICY + "resources: {time: 5s}\n" + ACCEPTED)
    rendered.run("set-up", "--yes")
    said = rendered.run("launch", "sh", "-c", "echo x >made; exec sleep 60")
    assert (said.returncode, "the time limit (resources.time) was reached" in said.stderr) == (124, True)
    assert (rendered.project / "made").exists(), "what was done until then comes back"
    assert rendered.run("launch", "true").returncode == 0


def test_two_runs_of_a_project_are_not_mixed(tmp_path: Path) -> None:
    rendered = _rendered(tmp_path)
    rendered.run("set-up", "--yes")
    (rendered.place / rendered.instance / ".sandwright").mkdir()
    said = rendered.run("launch", "true")
    assert (said.returncode, "a run of this project is active" in said.stderr) == (125, True)


def test_what_the_workflow_does_on_macos_is_done_with_the_stand_in(tmp_path: Path) -> None:
    """The same script, on a machine without an account."""
    program = Path(__file__).parent / "macos/try"
    place = tmp_path / "stand-in"
    place.mkdir()
    path = f"{Path(__file__).parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"ALCLESS_STANDIN": str(place), "PROJECTS": str(tmp_path), "HOME": str(tmp_path), "ACCOUNT": ""}
    said = subprocess.run(
        [program], capture_output=True, text=True, timeout=120, check=False, env={"PATH": path, **own}
    )
    assert (said.returncode, said.stdout.splitlines()[-2]) == (0, "as it should be"), said
    state = {".cache", ".config", ".docker", ".local"}  # reserved names, made when it renders
    assert {each.name for each in tmp_path.iterdir()} - state == {"stand-in"}


def test_no_set_id_file_comes_back(tmp_path: Path) -> None:
    """The copy belongs to its owner: a set-id file of the account's would become a program of the owner's."""
    rendered = _rendered(tmp_path)
    rendered.run("set-up", "--yes")
    script = (
        "for name in -u 'a b' plain; do echo x >\"./$name\"; done; chmod 6755 ./-u 'a b'; chmod 755 plain"
    )
    said = rendered.run("launch", "sh", "-c", f"{script}; mkdir shared; chmod 2775 shared")
    assert said.returncode == 0, said.stderr
    modes = {name: stat.S_IMODE((rendered.project / name).stat().st_mode) for name in ("-u", "a b", "plain")}
    assert modes == dict.fromkeys(modes, 0o755)
    assert stat.S_IMODE((rendered.project / "shared").stat().st_mode) == 0o2775
