"""Errors around `sandwright run`, and hostile commands: both leave nothing behind."""

from __future__ import annotations

import json
import sys

import pytest

from session.conftest import Project
from support.waiting import until

pytestmark = pytest.mark.needs("bwrap")


@pytest.mark.needs("docker")
def test_a_daemon_that_is_dead(project: Project) -> None:
    """The error comes before any start, and no other method is used instead."""
    project.environment["DOCKER_HOST"] = f"unix://{project.home}/none.sock"
    ended = project.run("touch", "ran", options=("--method", "docker"))
    assert (ended.returncode, ended.stdout) == (125, b"")
    assert b"docker: no daemon answers" in ended.stderr
    assert b"DOCKER_HOST" in ended.stderr
    assert not (project.root / "ran").exists()


PLANT = """
import ctypes, json, os, sys
words = lambda texts: (ctypes.c_char_p * (len(texts) + 1))(*(text.encode() for text in texts), None)
environ = [f"{name}={value}" for name, value in os.environ.items()] + json.loads(sys.argv[1])
ctypes.CDLL(None).execve(sys.argv[2].encode(), words(sys.argv[2:]), words(environ))
"""
"""Executes a command with more entries of the environment, which os.execve would refuse or merge."""


def _with_entries(project: Project, *entries: str) -> None:
    project.command = (sys.executable, "-c", PLANT, json.dumps(entries), *project.command)
    project.forked = ()


@pytest.mark.parametrize("option", ["", "--denials"], ids=["executed", "supervised"])
def test_entries_of_the_environment_that_are_no_variables(project: Project, option: str) -> None:
    _with_entries(project, "=x", "word")
    options = (option, str(project.home / "log")) if option else ()
    for _ in ("rendered", "from the cache"):
        ended = project.run("echo", "ran", options=options)
        assert (ended.returncode, ended.stdout) == (0, b"ran\n"), ended.stderr.decode()


def test_a_variable_that_occurs_twice(project: Project) -> None:
    """ld.so takes the last entry, and our check of what it loads the first."""
    _with_entries(project, "LD_PRELOAD=", f"LD_PRELOAD={project.root}/none.so")
    for _ in ("rendered", "from the cache"):
        ended = project.run("echo", "ran")
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"ran\n", b"")


NO_GOOD = {
    "closes its output": ("exec >&- 2>&-; exit 4", 4),
    "kills all": ("kill -KILL -1; exit 5", 5),  # not itself, and there is no other process
    "hangs": ("trap '' TERM INT HUP; exec >&- 2>&-; while :; do sleep 1; done", 124),
    "leaves a process": ("(trap '' TERM; setsid sleep 57 &) ; exit 6", 6),
    "forks": ("i=0; while [ $i -lt 300 ]; do sleep 57 & i=$((i + 1)); done; exit 9", 9),
    "fills": ("cat /dev/zero >/tmp/full 2>/dev/null; exit 7", 124),
    "rewrites its policy": (
        "echo 'method: noop' >>sandbox.yaml; rm -f sandbox.yaml; mv sandbox.yaml x; exit 8", 8,
    ),
}  # fmt: skip


def test_a_command_that_means_no_good(project: Project) -> None:
    before, policy = project.tree(), project.policy.read_bytes()
    for name, (script, status) in NO_GOOD.items():
        options = ("--time", "3s") if status == 124 else ()
        ended = project.run("sh", "-c", script, options=options)
        assert ended.returncode == status, (name, ended.stderr)
        assert project.policy.read_bytes() == policy, name
        until(lambda: project.tree() == before, f"{name}: something is left")
        assert project.records() == [], name
        assert project.run("echo", "on").stdout == b"on\n", name
