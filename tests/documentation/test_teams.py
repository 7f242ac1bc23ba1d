"""The files that a team adds to its repository: hooks, the action, our tasks; docs/teams.md runs the rest."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
WAIT = 120
POLICY = "schema: 1\nmethod: bwrap\nfilesystem: {read: [/usr, /etc], write: [$PROJECT]}\n"
"""The policy shows no sockets of this machine, which come and go while tests run."""


RENDERED = "--facts sandbox.facts.json --out sandbox.rendered"


@pytest.fixture(autouse=True, scope="module")
def _ready(programs: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PATH", f"{programs}:{BIN}:{os.environ['PATH']}")
        yield


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A team's repository: a policy, the facts for its rendering, and the rendered artifacts."""
    folder = _place(tmp_path_factory.mktemp("origin"))
    folder.mkdir()
    (folder / "sandbox.yaml").write_text(POLICY)
    assert (
        _shell(folder, f"sandwright facts > sandbox.facts.json; sandwright render {RENDERED}").returncode == 0
    )
    return folder


@pytest.fixture
def team(origin: Path, tmp_path: Path) -> Path:
    """A checkout of it in another directory: the facts are recorded so that this makes no difference."""
    return Path(shutil.copytree(origin, _place(tmp_path)))


def _place(parent: Path) -> Path:
    for name in ("home", "run"):
        (parent / name).mkdir(mode=0o700)
    return parent / "team"


def _environ(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("SANDWRIGHT_TEST_RUN",) if name in os.environ}
    own = {"HOME": str(folder.parent / "home"), "XDG_RUNTIME_DIR": str(folder.parent / "run")}
    return {**kept, **own, "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}


def _shell(folder: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**_environ(folder), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )


def _hook(identity: str) -> str:
    """The command line of a hook, as pre-commit puts it together."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    hook = next(each for each in hooks if each["id"] == identity)
    names = ["sandbox.yaml"] if hook.get("pass_filenames", True) else []
    return " ".join([hook["entry"], *hook.get("args", ()), *names])


@pytest.mark.parametrize("hook", ["sandwright-lint", "sandwright-render"])
def test_hooks_let_through_what_is_current(team: Path, hook: str) -> None:
    passed = _shell(team, _hook(hook))
    assert passed.returncode == 0, passed.stderr


def test_the_hook_of_the_policy_finds_a_mistake(team: Path) -> None:
    (team / "sandbox.yaml").write_text(POLICY.replace("method", "metod"))
    refused = _shell(team, _hook("sandwright-lint"))
    assert (refused.returncode, "sandbox.yaml:2:1: metod: no such key" in refused.stderr) == (2, True)


def test_the_hook_of_artifacts_finds_that_they_are_stale(team: Path) -> None:
    (team / "sandbox.yaml").write_text(POLICY + "process: {seccomp: strict}\n")
    refused = _shell(team, _hook("sandwright-render"))
    assert (refused.returncode, "sandbox.rendered/bwrap/seccomp.bpf" in refused.stderr) == (12, True)


def test_the_hook_of_changes_refuses_a_policy_that_allows_more(team: Path) -> None:
    git = "git -c user.name=x -c user.email=x@example.org"
    made = _shell(team, f"git init --quiet; git add sandbox.yaml; {git} commit --quiet --message x")
    assert made.returncode == 0, made.stderr
    assert _shell(team, _hook("sandwright-diff")).returncode == 0
    (team / "sandbox.yaml").write_text(POLICY + "process: {seccomp: build}\n")
    refused = _shell(team, _hook("sandwright-diff"))
    assert (refused.returncode, "syscall" in refused.stdout) == (14, True), refused.stderr
    taken = dict(_take_steps(team, base="HEAD"))
    assert taken["compare"].returncode == 14
    assert "newly allowed" in (team / "sandwright-report/diff.md").read_text()


def test_hooks_are_asked_for_the_files_they_are_about() -> None:
    hooks = {each["id"]: each for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert re.search(hooks["sandwright-lint"]["files"], "web/sandbox.yaml")
    assert not re.search(hooks["sandwright-lint"]["files"], "notsandbox.yaml")
    for name in ("sandbox.yaml", "sandbox.facts.json", "sandbox.rendered/bwrap/args"):
        assert re.search(hooks["sandwright-render"]["files"], name)


def _action() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    return document


def _take_steps(folder: Path, **inputs: str) -> list[tuple[str, subprocess.CompletedProcess[str]]]:
    """Run the steps of the action as GitHub would, except those that install something."""
    given = {name: inputs.get(name, each["default"]) for name, each in _action()["inputs"].items()}
    done = []
    for step in _action()["runs"]["steps"]:
        condition = re.fullmatch(r"inputs\.(\w+) != ''", step.get("if", ""))
        skipped = condition is not None and not given[condition[1]]
        if "run" not in step or step["name"] in ("install", "set up") or skipped:
            continue
        named = {
            key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], value)
            for key, value in step.get("env", {}).items()
        }
        done.append((step["name"], _shell(folder, step["run"], **named)))
    return done


def test_the_action_takes_the_steps_that_it_is_asked_for(team: Path) -> None:
    assert [(name, run.returncode) for name, run in _take_steps(team)] == [("lint", 0)]


@pytest.mark.needs("bwrap")
def test_the_action_checks_renders_and_verifies(team: Path) -> None:
    taken = _take_steps(team, facts="sandbox.facts.json", methods="bwrap")
    assert [(name, run.returncode) for name, run in taken] == [
        ("lint", 0),
        ("check what is rendered", 0),
        ("verify", 0),
    ], [run.stderr + run.stdout for _, run in taken]
    assert {path.name for path in (team / "sandwright-report").iterdir()} == {
        "verify.json",
        "junit.xml",
        "verify.html",
    }


@pytest.mark.parametrize("hostile", ["$(touch made).yaml", "x'; touch made; '.yaml", "`touch made`.yaml"])
def test_an_input_of_the_action_is_no_script(team: Path, hostile: str) -> None:
    (name, run), *_ = _take_steps(team, policy=hostile)
    assert (name, run.returncode) == ("lint", 64), run.stderr
    assert not (team / "made").exists()


def _installing() -> list[tuple[str, str]]:
    """The commands that install sandwright in a project's checkout, each with the variable of its source."""
    template = list(yaml.safe_load_all((ROOT / "docs/adopt/gitlab-ci.yml").read_text()))[1]
    (step,) = (each for each in _action()["runs"]["steps"] if each.get("name") == "install")
    jobs = [each["script"][0] for name, each in template.items() if "script" in each]
    return [("ACTION", step["run"]), *(("SANDWRIGHT_PACKAGE", each) for each in jobs)]


@pytest.mark.parametrize(("variable", "command"), _installing())
def test_what_checks_a_change_takes_no_installer_from_it(team: Path, variable: str, command: str) -> None:
    """A project's change must not choose the program that checks it."""
    (team / "pip.py").write_text("open('made', 'w')\n")
    ended = _shell(team, command, **{variable: "./nothing-is-there"})
    assert "nothing-is-there" in ended.stderr, ended.stderr
    assert not (team / "made").exists()


@pytest.mark.needs("bwrap")
def test_the_example_has_our_tasks_beside_its_own(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(Path(__file__).parent / "example", _place(tmp_path)))
    assert _shell(folder, "invoke sandbox.init --yes --method bwrap").returncode == 0
    ran = _shell(folder, "invoke sandbox.run -- make test")
    assert (ran.returncode, "OK" in ran.stderr.splitlines()) == (0, True), ran.stderr
