"""A run of the method `user` ends when work on the host removes one of its mounts."""

from __future__ import annotations

import subprocess

import pytest

from support.ownedprojects import WAIT, Project, digests

UNTIL_GO = "until [ -e go ]; do sleep 0.05; done;"


def started(project: Project, script: str) -> subprocess.Popen[bytes]:
    run = subprocess.Popen(
        [project.rendered(), "sh", "-c", f"echo up; {script}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=project.root,
        env=project.environ,
    )
    assert run.stdout is not None
    assert run.stdout.readline() == b"up\n"
    return run


@pytest.mark.parametrize("name", [".env", "LICENSE", "sandbox.yaml"])
def test_the_run_ends(project: Project, name: str) -> None:
    """The status is 137, and the message has the path. None of root's own mounts is left."""
    path = project.root / name
    before = path.read_text()
    run = started(project, "sleep 600")
    try:
        (project.root / "new").write_text(before)
        (project.root / "new").rename(path)
        _, said = run.communicate(timeout=WAIT)
    finally:
        run.kill() if run.poll() is None else None
        run.communicate(timeout=WAIT)
    assert f"{path} was replaced on the host during the run: the run was stopped".encode() in said
    assert run.returncode == 137


def test_other_work_goes_on(project: Project) -> None:
    run = started(project, f"{UNTIL_GO} echo fine")
    try:
        assert project.run("true").returncode == 0
        (project.root / "file").write_text("a")
        (project.root / "file").rename(project.root / "other")
        (project.root / "go").touch()
        out, said = run.communicate(timeout=WAIT)
    finally:
        run.kill() if run.poll() is None else None
        (project.root / "go").unlink(missing_ok=True)
        (project.root / "other").unlink(missing_ok=True)
    assert (run.returncode, out, said) == (0, b"fine\n", b"")


def test_nothing_runs_where_a_mount_is_missing(project: Project) -> None:
    """The plan lacks one of the mounts, as if it had been removed before the command: no command runs."""
    launcher = project.rendered()
    plan = launcher.with_name("plan")
    words = plan.read_bytes().split(b"\0")
    at = words.index(bytes(project.root / ".env"))
    taken = b"\0".join(words[: at - 2] + words[at + 1 :])
    assert taken != plan.read_bytes()
    plan.write_bytes(taken)
    digests(launcher)
    ended = project.run("cat", ".env", launcher=launcher)
    assert (ended.returncode, ended.stdout) == (125, b"")
    assert f"{project.root}/.env is not mounted as it was rendered: nothing was run".encode() in ended.stderr
