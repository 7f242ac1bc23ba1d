"""Fixtures for the tests of sessions: a project with a policy, and the command in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from session.hostsockets import Host
from support import fronts, preflights, standby
from support.canary import Canary, canary
from support.enginehosts import end_pause
from support.filetrees import paths_below
from support.netlab import WORLD, World, lab
from support.processtrees import naming
from support.waiting import until

SANDWRIGHT = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
POLICY = "schema: 1\nmethod: bwrap\nfilesystem:\n  write: [$PROJECT]\n  deny: [$PROJECT/secrets]\n"
DECISIVE = {"HOME", "PATH", "XDG_CACHE_HOME"}
"""Variables with which a test changes a preflight's finding, or its location."""
WAIT = 180.0
"""Seconds that one run may take beside 49 others, on a busy machine."""


@dataclass
class Project:
    """A directory with a policy, in a separate home."""

    root: Path
    home: Path
    runtime: Path
    environment: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = SANDWRIGHT
    forked: tuple[str, ...] = standby.COMMAND
    """`run` and `sandwright` call this command, unless a test is about the start of the real one."""
    shares_preflights: bool = True
    """Whether its first start uses the preflights of other projects."""

    @property
    def policy(self) -> Path:
        return self.root / "sandbox.yaml"

    @property
    def environ(self) -> dict[str, str]:
        kept = {
            name: os.environ[name]
            for name in ("PATH", "SANDWRIGHT_TEST_RUN", "SANDWRIGHT_TRUST", "DOCKER_HOST")
            if name in os.environ
        }
        own = {"HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.runtime), "LC_ALL": "C.UTF-8"}
        return {**kept, **own, **self.environment}

    def apart(self) -> None:
        """Isolate the project from the engines and files in /tmp of other tests."""
        folder = self.home / "engines"
        folder.mkdir()
        storage, containers = folder / "storage.conf", folder / "containers.conf"
        roots = f'graphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'
        storage.write_text(f'[storage]\ndriver = "vfs"\n{roots}')
        containers.write_text(f'[network]\nnetwork_config_dir = "{folder}/networks"\n')
        self.environment |= {
            "DOCKER_HOST": f"unix://{folder}/none.sock",
            "CONTAINERS_STORAGE_CONF": str(storage),
            "CONTAINERS_CONF": str(containers),
            "TMPDIR": str(folder),
        }

    def run(
        self, *words: str, stdin: bytes = b"", options: tuple[str, ...] = (), cwd: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """`sandwright run OPTIONS -- WORDS` in the project."""
        return self.sandwright("run", *options, "--", *words, stdin=stdin, cwd=cwd)

    def sandwright(
        self, *words: str, stdin: bytes = b"", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        if self.shares_preflights:
            preflights.seed(self.home)
        ended = subprocess.run(
            [*(self.forked or self.command), *words],
            input=stdin,
            capture_output=True,
            timeout=WAIT,
            check=False,
            cwd=cwd or self.root,
            env=self.environ,
        )
        if self.shares_preflights and ended.returncode == 0 and not DECISIVE & self.environment.keys():
            preflights.share(self.home)
        return ended

    def denials(self, *words: str, options: tuple[str, ...] = ()) -> tuple[list[dict[str, Any]], str]:
        """The denials of a run from `--denials`, by kind, and its standard error; it ends with 0."""
        file = self.home / "denials"
        file.unlink(missing_ok=True)
        ended = self.run(*words, options=("--denials", str(file), *options))
        assert ended.returncode == 0, ended.stderr.decode()
        return denials_in(file), ended.stderr.decode()

    def start(self, *words: str, options: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self.command, "run", *options, "--", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.root,
            env=self.environ,
        )

    def tree(self) -> set[str]:
        """All paths of the project, including those that are being removed."""
        return paths_below(self.root)

    def records(self) -> list[Path]:
        """The records of sessions, including half-written ones."""
        found = (self.runtime / "sandwright" / "sessions").glob("*")
        return sorted(each for each in found if each.suffix != ".exec")

    def sockets(self) -> list[Path]:
        """The sockets for further commands."""
        return sorted((self.runtime / "sandwright" / "sessions").glob("*.exec"))


@pytest.fixture(scope="session")
def forked(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The command, whose Python is forked from a process that has imported everything."""
    folder = tmp_path_factory.mktemp("forked")
    return (str(fronts.installed(folder, str(standby.interpreter(folder / "interpreter")))),)


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest, forked: tuple[str, ...]) -> Iterator[Project]:
    command = (str(fronts.installed(tmp_path / "command")),)
    forked = () if request.node.get_closest_marker("real_start") else forked
    made = Project(
        tmp_path / "home" / "p", tmp_path / "home", tmp_path / "run", command=command, forked=forked
    )
    made.shares_preflights = bool(forked)
    for path in (".git/hooks/x", ".git/config", ".git/HEAD", "secrets/key"):
        (made.root / path).parent.mkdir(parents=True, exist_ok=True)
        (made.root / path).write_text("content")
    made.runtime.mkdir(mode=0o700)
    made.policy.write_text(POLICY)
    yield made
    # First the launcher of a trial that took too long: with Podman, it removes its container.
    until(lambda: not naming(str(tmp_path)), "a process of the test still runs")
    end_pause(made.runtime / "libpod" / "tmp")
    mounted = [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(tmp_path) in line
    ]
    assert mounted == []


@pytest.fixture
def person() -> Iterator[Project]:
    """A project without a policy, in the home of a user without agents, not in /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="sandwright-test-") as made:
        project = Project(Path(made, "home", "p"), Path(made, "home"), Path(made, "run"))
        for folder in (project.root, project.runtime):
            folder.mkdir(mode=0o700, parents=True)
        yield project


@pytest.fixture
def host() -> Iterator[Host]:
    """A host on which no service listens yet."""
    with ExitStack() as stack:
        yield Host(stack)


def denials_in(file: Path) -> list[dict[str, Any]]:
    """The denials in a file of `run --denials`, in their order; counts of the same kind are summed."""
    found: dict[str, dict[str, Any]] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        one = json.loads(line)
        kind = json.dumps({**one, "count": 0})
        if kind in found and one["count"] is not None:
            one["count"] += found[kind]["count"]
        found[kind] = one
    return list(found.values())


@pytest.fixture(scope="module")
def world(network_lab: None) -> Iterator[World]:
    """A network namespace that stands for the internet."""
    with lab() as found:
        yield found


@pytest.fixture(scope="module")
def upstream(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canary]:
    """HTTPS for `api.example`, at a port below 1024, to which names lead inside, too."""
    with ExitStack() as stack:
        with world.inside():
            running = canary(tmp_path_factory.mktemp("canary"), ["api.example"], WORLD, 444)
            found = stack.enter_context(running)
        yield found
