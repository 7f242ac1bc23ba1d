"""A repository that a program inside makes at the project's root: the host's Git must not accept it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.errors import UsageError
from sandwright.policy.collect import collect_facts
from sandwright.policy.load import layer
from sandwright.render.mounts import mount_plan
from support.launchers import launcher_of

PATIENCE = 60
POLICY = "method: bwrap\n"
OPEN = "method: bwrap\nextends: []\nfilesystem: {read: [/], write: [$PROJECT]}\n"

CONFIG = """\
configure() {
    printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = .\\n' >"$1/config"
    printf '\\tfsmonitor = "touch %s/ran; false"\\n' "$PWD" >>"$1/config"
}
apart() { # with `commondir` a work tree is only taken from here
    configure "$1"
    printf '[extensions]\\n\\tworktreeConfig = true\\n' >>"$1/config"
    mv "$1/config" config.worktree
    grep -v fsmonitor config.worktree >config.part
    grep -v -e bare -e 'worktree =' config.worktree >"$1/config"
    mv config.part config.worktree
}
[ ! -e .git/HEAD ] || mv .git/HEAD .git/gone
"""
PLANTS = {
    "by hand": "mkdir objects refs; echo ref: refs/heads/main >HEAD; configure .",
    "a linked HEAD": "mkdir objects refs; ln -s refs/heads/main HEAD; configure .",
    "elsewhere": "mkdir e e/objects e/refs; apart e; echo e >commondir; echo ref: refs/heads/x >HEAD",
    "moved": "mkdir e e/objects e/refs; echo ref: refs/heads/main >e/HEAD; configure e; mv e/* .",
}


@pytest.fixture(params=["repository", "none"])
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A project, with and without a repository."""
    project = tmp_path / "home" / "p"
    project.mkdir(parents=True)
    if request.param == "repository":
        process.run("git", "init", "-q", project, env=_environment(project))
    return project


def _environment(project: Path) -> dict[str, str]:
    return {
        "HOME": str(project.parent),
        "PATH": os.environ["PATH"],
        "GIT_CEILING_DIRECTORIES": str(project.parent),
    }


def _status(project: Path) -> None:
    """Run the host's `git status`, which fails without a repository."""
    process.run("git", "status", cwd=project, env=_environment(project), timeout=PATIENCE, check=False)


def _plant(project: Path, out: Path, policy: str, plant: str) -> None:
    """Attempt to make a repository inside, and use Git on the host during the run and afterwards."""
    launcher = launcher_of(policy, "bwrap", out, project=project)
    script = f"cd '{project}'\n{CONFIG}\n{{ {PLANTS[plant]}; }} 2>/dev/null\necho up; read x"
    with process.start(launcher, "sh", "-c", script, stdin=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdin is not None
        assert run.stdout.readline() == b"up\n"
        _status(project)
        run.stdin.close()
        run.wait(timeout=PATIENCE)
    _status(project)


@pytest.mark.needs("bwrap", "git")
@pytest.mark.parametrize("plant", PLANTS)
def test_no_repository_is_completed(project: Path, tmp_path: Path, plant: str) -> None:
    _plant(project, tmp_path / "out", POLICY, plant)
    assert (project / "HEAD").is_symlink() or (project / "HEAD").exists()  # the attempt got as far as this
    assert not (project / "ran").exists()
    assert not (project / "refs").exists()
    assert not (project / "commondir").exists()


@pytest.mark.needs("bwrap", "git")
@pytest.mark.parametrize("plant", PLANTS)
def test_without_the_placeholders_each_runs(project: Path, tmp_path: Path, plant: str) -> None:
    """The control: the same attempts run code if no name is protected."""
    _plant(project, tmp_path / "out", OPEN, plant)
    assert (project / "ran").exists()


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    ("there", "made"),
    [
        pytest.param([], ["commondir", "refs"], id="nothing"),
        pytest.param(["refs"], ["commondir", "objects"], id="refs"),
        pytest.param(["refs", "objects"], ["HEAD"], id="all but HEAD"),
        pytest.param(["HEAD", "objects"], ["commondir", "refs"], id="all but refs"),
        pytest.param(["commondir"], ["HEAD"], id="commondir"),
    ],
)
def test_one_name_of_a_repository_can_not_be_made(tmp_path: Path, there: list[str], made: list[str]) -> None:
    found = _planned(tmp_path, there, POLICY)
    assert [name for name in found if name in ("HEAD", "commondir", "objects", "refs")] == made


@pytest.mark.parametrize("there", [["HEAD", "objects", "refs"], ["HEAD", "commondir"]])
def test_a_project_that_is_a_repository_itself_is_refused(tmp_path: Path, there: list[str]) -> None:
    with pytest.raises(UsageError, match="can be a bare repository") as refused:
        _planned(tmp_path, there, POLICY)
    assert "unprotect: [{path: $PROJECT/HEAD, reason: …}]" in str(refused.value)
    accepted = "filesystem: {unprotect: [{path: $PROJECT/HEAD, reason: it is one}]}\n"
    _planned(tmp_path, there, POLICY + accepted)
    _planned(tmp_path, there, "method: bwrap\nfilesystem: {write: [/srv]}\n")


def test_what_is_lifted_is_replaced_by_another_name(tmp_path: Path) -> None:
    """A project that needs `refs` says so; then `objects` can't be made."""
    lifted = "filesystem: {unprotect: [{path: $PROJECT/refs, reason: it is made by the build}]}\n"
    found = _planned(tmp_path, [], POLICY + lifted)
    assert "refs" not in found
    assert {"commondir", "objects"} <= {*found}


def _planned(tmp_path: Path, there: list[str], text: str) -> list[str]:
    """The names that cannot be made in a project in which some exist."""
    project = tmp_path / "home" / "p"
    project.mkdir(parents=True, exist_ok=True)
    for name in there:
        (project / name).mkdir(exist_ok=True)
    policy = Policy.from_layers([layer(text)])
    facts = collect_facts(policy, project=project, environ={"HOME": str(project.parent)})
    plan = mount_plan(policy.resolve(facts), root="host")
    return sorted(
        Path(placeholder.path).name
        for placeholder in plan.placeholders
        if Path(placeholder.path).parent == project
    )
