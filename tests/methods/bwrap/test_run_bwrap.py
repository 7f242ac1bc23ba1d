"""`sandwright run` with bubblewrap, for real: inputs and outputs, denials, and leftovers.

Tests of launcher/source/bwrap.c.
Tests of launcher/source/command.c.
Tests of launcher/source/init.c: signals reach the job inside.
Tests of launcher/source/monitor.c: the time limit (124), signals.
Tests of launcher/source/process.c: signals are caught and forwarded.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from session.conftest import SANDWRIGHT, Project
from support.processtrees import naming
from support.thorough import THOROUGH
from support.waiting import until

pytestmark = pytest.mark.needs("bwrap")


STATUSES = {
    "exit 0": 0,
    "exit 1": 1,
    "exit 42": 42,
    "exit 255": 255,
    "kill -TERM $$": 143,
    "kill -KILL $$": 137,
}


def test_exit_status(project: Project) -> None:
    for script, status in STATUSES.items():
        ended = project.run("sh", "-c", f"echo out; echo err >&2; {script}")
        assert (ended.returncode, ended.stdout, ended.stderr) == (status, b"out\n", b"err\n"), script


def test_allowed_and_denied(project: Project) -> None:
    before = project.tree()
    ended = project.run(
        "sh", "-c", "echo new >file; cat file; cat secrets/key; echo x >/etc/x; echo x >sandbox.yaml"
    )
    assert ended.stdout == b"new\n"
    for said in (
        b"secrets/key: No such file",
        b"/etc/x: Read-only file system",
        b"sandbox.yaml: Read-only file",
    ):
        assert said in ended.stderr
    assert project.tree() == before | {"file"}
    assert project.records() == []


def test_input_and_output_are_bytes(project: Project) -> None:
    sent = bytes(range(256)) * 8192
    assert project.run("cat", stdin=sent).stdout == sent
    assert project.run("sh", "-c", "read -r x; echo [$x]", stdin=b"").stdout == b"[]\n"


def test_words_come_as_they_are(project: Project) -> None:
    words = ["", " ", "a b", "-x", "--", "$HOME", "'\"\\", "line\nbreak", "ü"]
    ended = project.run("printf", r"%s\0", *words)
    assert ended.stdout.decode().split("\0")[:-1] == words


def test_a_command_with_the_name_of_an_option_of_the_launcher_s(project: Project) -> None:
    project.environment["PATH"] = f"{project.root}:{project.environ['PATH']}"
    for word in ("--uncover", "--as-root", "--run"):
        (project.root / word).write_text("#!/bin/sh\nexit 7\n")
        (project.root / word).chmod(0o755)
        assert project.run(word).returncode == 7, word


def test_a_reader_that_goes_away(project: Project) -> None:
    """The command gets SIGPIPE, as without sandwright (Python ignores it, and children inherit that)."""
    running = project.start("sh", "-c", "while :; do echo y; done")
    assert running.stdout is not None
    assert running.stdout.readline() == b"y\n"
    running.stdout.close()
    assert running.wait(timeout=60) == 141
    assert running.stderr is not None
    running.stderr.close()


def test_a_time_limit_in_seconds(project: Project) -> None:
    """The help documents a number alone as seconds."""
    ended = project.run("sh", "-c", "echo begun; sleep 60", options=("--time", "1"))
    assert (ended.returncode, ended.stdout) == (124, b"begun\n"), ended
    assert project.run("true", options=("--time", "90")).returncode == 0
    refused = project.run("true", options=("--time", "0"))
    assert refused.returncode == 125
    assert b"must be between 1s and 366d" in refused.stderr


def test_the_time_limit(project: Project) -> None:
    before, started = project.tree(), time.monotonic()
    ended = project.run("sh", "-c", "echo begun; sleep 30", options=("--time", "1s"))
    assert (ended.returncode, ended.stdout) == (124, b"begun\n")
    assert b"the time limit (resources.time) was reached" in ended.stderr
    assert time.monotonic() - started < 20
    assert project.tree() == before
    assert project.records() == []


def test_signals_reach_the_command(project: Project) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        name = number.name.removeprefix("SIG")
        running = project.start(
            "sh", "-c", f"trap 'echo got; exit 9' {name}; echo up; while :; do sleep 0.05; done"
        )
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        running.send_signal(number)
        out, err = running.communicate(timeout=60)
        assert (running.returncode, out, err) == (9, b"got\n", b""), name


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["TERM", "INT"]
)
def test_signals_end_a_command_that_does_not_care(project: Project, number: int, status: int) -> None:
    before = project.tree()
    running = project.start("sh", "-c", "echo up; exec sleep 50")
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    running.send_signal(number)
    running.communicate(timeout=60)
    assert running.returncode == status
    until(lambda: project.tree() == before, "a cover is left")
    assert project.records() == []


@pytest.mark.parametrize("target", ["run", "launcher"])
def test_kill_leaves_nothing(project: Project, target: str) -> None:
    before = project.tree()
    marker = f"kill-{os.getpid()}-{target}"
    running = project.start("sh", "-c", f"echo up; sleep 50; : {marker}", options=("--time", "60s"))
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    assert naming(marker)
    assert len(project.records()) == 1
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    os.kill(running.pid if target == "run" else int(children[0]), signal.SIGKILL)
    running.communicate(timeout=60)
    assert running.returncode == (-signal.SIGKILL if target == "run" else 137)
    until(lambda: not naming(marker), "the sandbox goes on")
    until(lambda: project.tree() == before, "a cover is left")
    assert project.run("true").returncode == 0
    assert project.records() == []


def _said(stderr: bytes) -> list[bytes]:
    """Lines, except those of a repeated start, which is needed when other tests mount something meanwhile."""
    return [line for line in stderr.splitlines() if b"/oldroot/" not in line and b"once more" not in line]


def test_many_at_once(project: Project) -> None:
    before, many = project.tree(), 50 if THOROUGH else 20
    assert project.run("true").returncode == 0
    with ThreadPoolExecutor(many) as pool:
        ended = list(
            pool.map(
                lambda n: project.run("sh", "-c", f"echo {n} >/tmp/mine; cat /tmp/mine; exit 3"), range(many)
            )
        )
    assert [(each.returncode, each.stdout, _said(each.stderr)) for each in ended] == [
        (3, f"{n}\n".encode(), []) for n in range(many)
    ]
    until(lambda: project.tree() == before, "a cover is left")
    assert project.records() == []


@pytest.mark.parametrize("place", ["home", "root"])
def test_no_project_of_its_own(project: Project, place: str) -> None:
    folder = project.home if place == "home" else Path("/")
    policy = project.home / "sandbox.yaml"
    policy.write_text("schema: 1\nmethod: bwrap\n")
    if place == "root":
        project.environment["HOME"] = str(project.runtime)
        ended = project.sandwright(
            "run", "--policy", "/proc/self/cwd/../../../../../../sandbox.yaml", "true", cwd=folder
        )
        assert ended.returncode == 125
        return
    ended = project.run("touch", "ran", cwd=folder)
    assert (ended.returncode, ended.stdout) == (125, b"")
    assert b"is the home directory; choose a directory in it" in ended.stderr
    assert not (folder / "ran").exists()


def test_a_project_behind_a_link(project: Project, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project.root)
    for cwd, policy in ((link, "sandbox.yaml"), (tmp_path, "link/sandbox.yaml")):
        ended = project.sandwright(
            "run",
            "--policy",
            policy,
            "--",
            "sh",
            "-c",
            f"echo x >{project.root}/made; cat {project.root}/secrets/key",
            cwd=cwd,
        )
        assert ended.returncode == 1
        assert (project.root / "made").read_text() == "x\n"
        assert ended.stdout == b""
        (project.root / "made").unlink()


def test_below_the_project(project: Project) -> None:
    (project.root / "sub").mkdir()
    ended = project.sandwright(
        "run", "--policy", "../sandbox.yaml", "sh", "-c", "pwd; echo x >y", cwd=project.root / "sub"
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{project.root}/sub\n".encode(), b"")
    assert (project.root / "sub" / "y").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run",), "give a command to run"),
        (("run", "--nonsense", "--", "true"), "no option '--nonsense'"),
        (("run", "--policy"), "--policy needs a value"),
        (
            ("run", "--policy", "other.yaml", "--", "true"),
            "/other.yaml: No such file",
        ),
        (("run", "--method", "rocket", "--", "true"), "rocket"),
        (
            ("run", "--method", "kubernetes", "--", "true"),
            "kubernetes: no kubeconfig says where",
        ),
        (("run", "--method", "seatbelt", "--", "true"), "seatbelt: Seatbelt is macOS'; this is linux"),
        (("run", "--method", "noop", "--", "true"), "noop enforces nothing and needs a reason"),
        (("run", "--set", "network.mode=nothing", "--", "true"), "network.mode"),
        (("run", "--method", "landlock", "--", "true"), "landlock cannot enforce filesystem.attributes"),
    ],
    ids=lambda value: "-".join(value[1:]) if isinstance(value, tuple) else "",
)
def test_what_can_not_be_run(project: Project, words: tuple[str, ...], said: str) -> None:
    ended = project.sandwright(*words)
    assert ended.returncode == 125
    assert said in ended.stderr.decode()
    assert all(line.startswith("sandwright: ") for line in ended.stderr.decode().splitlines())


def test_without_bubblewrap(project: Project, tmp_path: Path) -> None:
    """No command runs without a sandbox; the absence is found at once if bubblewrap was there before."""
    assert project.run("true").returncode == 0
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "sha256sum", "awk", "env", "touch", "mktemp", "mkfifo", "rm", "setsid", "flock"):
        found = subprocess.run(
            ["sh", "-c", f"command -v {name}"], capture_output=True, check=True
        ).stdout.decode()
        (programs / name).symlink_to(found.strip())
    project.environment["PATH"] = str(programs)
    ended = project.run("touch", "ran")
    assert ended.returncode == 125
    assert b"bwrap" in ended.stderr
    assert b"installed" in ended.stderr
    assert not (project.root / "ran").exists()


def test_variables_and_secrets(project: Project) -> None:
    project.environment |= {"TOKEN": "PLANTED", "LC_TEST": "passes"}
    ended = project.run("sh", "-c", "env; cat /proc/1/environ")
    assert b"LC_TEST=passes" in ended.stdout
    assert b"PLANTED" not in ended.stdout
    assert b"SANDWRIGHT" not in ended.stdout.replace(b"SANDWRIGHT_INSIDE=1\n", b"").replace(
        b"SANDWRIGHT_INSIDE=1\0", b""
    )


def test_cidfile(project: Project, tmp_path: Path) -> None:
    file = tmp_path / "id"
    assert project.run("true", options=("--cidfile", str(file))).returncode == 0
    assert re.fullmatch("[0-9a-f]{16}", file.read_text())
    again = project.run("touch", "ran", options=("--cidfile", str(file)))
    assert again.returncode == 125
    assert b"File exists" in again.stderr
    assert not (project.root / "ran").exists()


def test_interrupted_before_it_starts(project: Project) -> None:
    """Whenever the signal comes, no process goes on and no file is left."""
    before = project.tree()
    assert project.run("true").returncode == 0
    for delay in (0.0, 0.03, 0.06, 0.09, 0.12, 0.2):
        running = subprocess.Popen(
            [*SANDWRIGHT, "run", "--", "sleep", "47.125"],
            cwd=project.root,
            env=project.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(delay)
        running.terminate()
        assert running.wait(timeout=60) != 0
    until(lambda: not naming(b"47.125"), "a sandbox goes on")
    until(lambda: project.tree() == before, "a cover is left")
