"""Detached sessions whose processes are killed (kill -9) at random times: no leftovers, and no false report.

Tests of session/detached.py, session/held_terminal.py.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from session.conftest import WAIT, Project
from support.processtrees import command_lines
from support.thorough import THOROUGH
from support.waiting import until

POINTS = 25 if THOROUGH else 5
PARTS = 10 if THOROUGH else 1
"""The runs for each of four kinds of sessions: 1,000 points, or 20."""
AT_ONCE = (1, 1, 1, 2, 3) if THOROUGH else (1,)
"""The number of processes that are killed at each point."""
GAPS = ("filesystem.protect", "filesystem.attributes", "process.kernel")
LANDLOCK = (
    "accept_gaps: [" + ", ".join(f"{{feature: {each}, method: landlock, reason: a}}" for each in GAPS) + "]"
)
MARK = "SANDWRIGHT_KILL_POINT"


def _processes(mark: str) -> list[int]:
    """The processes of a session on the host, which have inherited a variable."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _inside(marker: str) -> list[int]:
    """The command, which does not inherit it."""
    return [pid for pid, words in command_lines().items() if words == f"sleep\0{marker}\0".encode()]


def _kill_some(chosen: random.Random, mark: str) -> list[str]:
    """Kill some of them; return their names."""
    there = _processes(mark)
    killed = []
    for pid in chosen.sample(there, min(len(there), chosen.choice(AT_ONCE))):
        with suppress(OSError):
            killed.append(Path(f"/proc/{pid}/comm").read_text().strip())
            os.kill(pid, signal.SIGKILL)
    return killed


class _Point:
    """One session."""

    def __init__(self, project: Project, chosen: random.Random, mark: str, tty: bool) -> None:
        self.project, self.chosen, self.mark = project, chosen, mark
        self.seconds = str(chosen.randrange(100_000, 999_999))
        self.start = ["run", "--detach", *["--tty"] * tty, "--trust-policy", "--name", "web", "--"]
        self.start += ["sleep", self.seconds]

    def spawn(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self.project.command, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.project.root,
            env={**self.project.environ, MARK: self.mark},
        )

    def happen(self) -> str:
        """Start, continue or stop, and kill; return the actions."""
        phase = self.chosen.choice(("start", "start", "run", "join", "stop"))
        client = self.spawn(*self.start)
        if phase != "start":
            assert client.wait(timeout=WAIT) == 0
        if phase in ("join", "stop"):
            joins = ["attach", "web"], ["exec", "web", "--", "sleep", self.seconds]
            client = self.spawn(*(["stop", "web"] if phase == "stop" else self.chosen.choice(joins)))
        wait = self.chosen.uniform(0, {"start": 0.8, "run": 0.1, "join": 0.5, "stop": 0.4}[phase])
        time.sleep(wait)
        killed = _kill_some(self.chosen, self.mark)
        if phase == "join" and client.poll() is None:
            time.sleep(0.1)
            client.kill()
        client.wait(timeout=WAIT)
        return f"{phase} after {wait:.3f} s, killed {killed}"

    def sessions(self) -> list[dict[str, object]]:
        ended = self.project.sandwright("status", "--json")
        assert ended.returncode == 0, ended.stderr
        found: list[dict[str, object]] = json.loads(ended.stdout)["sessions"]
        return found

    def is_settled(self) -> bool:
        """Whether `status` lists the running sessions: a start whose client was killed may go on."""
        found = self.sessions()
        running = _processes(self.mark) + _inside(self.seconds)
        return all(int(str(each["pid"])) in running for each in found) if found else not running

    def check(self, before: set[str]) -> None:
        """Check that the commands' reports are true, and that nothing is left at the end."""
        until(self.is_settled, "processes run that `status` does not list", within=20)
        if self.sessions():
            ended = self.project.sandwright("stop", "--time", "5s", "web")
            gone = b"no session web runs" in ended.stderr
            assert ended.returncode == 0 or gone, ended.stderr
        assert self.sessions() == []
        until(
            lambda: not _processes(self.mark) + _inside(self.seconds),
            "a process is left",
            within=20,
        )
        runtime = self.project.runtime / "sandwright"
        records = [
            path for path in (runtime / "sessions").glob("*") if not path.with_suffix(".json").exists()
        ]
        for path in (*records, *(runtime / "runs").glob("sandwright-*")):
            os.utime(path, (0, 0))  # without a record or owner they may belong to a start, for some time
        cleaned = self.project.sandwright("cleanup", "--json")
        assert cleaned.returncode == 0, cleaned.stderr
        assert json.loads(cleaned.stdout)["stays"] == []
        assert self.project.sandwright("cleanup", "--json").stdout == (
            json.dumps({"found": [], "removed": True, "stays": [], "elsewhere": []}, indent=2).encode()
            + b"\n"
        )
        assert self.left() == []
        assert self.project.tree() == before

    def left(self) -> list[str]:
        """Records, sockets, directories of runs, mounts. The next run removes cgroups (docs/launcher.md)."""
        runtime = self.project.runtime / "sandwright"
        found = [*(runtime / "sessions").glob("*"), *(runtime / "runs").glob("sandwright-*")]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        return [*map(str, found), *(each for each in mounts if str(self.project.home) in each)]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("tty", [False, True], ids=["plain", "tty"])
@pytest.mark.parametrize("method", [pytest.param("bwrap", marks=pytest.mark.needs("bwrap")), "landlock"])
def test_killed_at_random_points_nothing_is_left(project: Project, method: str, tty: bool, part: int) -> None:
    gaps = LANDLOCK if method == "landlock" else ""
    project.policy.write_text(f"schema: 1\nmethod: {method}\nfilesystem: {{write: [$PROJECT]}}\n{gaps}\n")
    assert project.run("true", options=("--trust-policy",)).returncode == 0
    before = project.tree()
    seed = int(os.environ.get("SANDWRIGHT_SEED") or random.randrange(1 << 30)) + part
    chosen, faults = random.Random(seed), []
    for number in range(int(os.environ.get("SANDWRIGHT_POINTS") or POINTS)):
        point = _Point(project, chosen, f"{seed}-{number}", tty)
        done = point.happen()
        try:
            point.check(before)
        except AssertionError as fault:
            faults.append(f"seed {seed}, point {number}: {done}: {fault}")
            for pid in _processes(point.mark) + _inside(point.seconds):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            project.sandwright("cleanup")
            for path in (project.runtime / "sandwright" / "sessions").glob("*"):
                path.unlink(missing_ok=True)
            if len(faults) > 4:
                break
    assert faults == []
