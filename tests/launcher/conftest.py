"""The launcher's parsers, built once, and its parts, called by a driver."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.launcher import LAUNCH
from support.sanitized import built
from support.weakening import edited

PARTS = tuple(each.name for each in LAUNCH.sources() if each.suffix == ".c" and each.name != "main.c")
SANITIZE = "-fsanitize=address,undefined"
WAIT = 60


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("harness") / "harness"
    return built(made, "cc", SANITIZE, "-DSHOW")


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("driver") / "driver"
    return built(made, "cc", SANITIZE, main=Path(__file__).with_name("driver.c"), parts=PARTS)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The launcher, compiled with the same compiler as the edited launchers of other tests."""
    made = tmp_path_factory.mktemp("launch") / "launch"
    made.write_bytes(edited(LAUNCH, ()))
    made.chmod(0o755)
    return made


Drive = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Runs have their directories in a directory of the test."""
    (tmp_path / "state").mkdir()
    return {
        "PATH": os.environ["PATH"],
        "XDG_RUNTIME_DIR": str(tmp_path / "state"),
        "ASAN_OPTIONS": "detect_leaks=0",  # the launcher frees nothing
    }


@pytest.fixture
def drive(driver: Path, environ: dict[str, str]) -> Drive:
    """Call the driver and wait for its end."""

    def call(
        *words: str | Path, stdin: str = "", status: int = 0, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            [driver, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
            env={**environ, **variables},
        )
        assert ended.returncode == status, ended.stderr
        return ended

    return call


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(driver: Path, environ: dict[str, str]) -> Start:
    """Start the driver, up to its `wait`."""

    def call(*words: str | Path) -> subprocess.Popen[str]:
        running = subprocess.Popen(
            [driver, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
        )
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        return running

    return call
