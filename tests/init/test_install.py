"""The commands that `init` prints install dependencies: real package managers and their registries.

Missing programs come from their registries (`npm`, `pip`), in a directory of the test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.needs("bwrap", "squid", "git"),
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` downloads from registries"),
]

WAIT = 300
_PACKAGE = '{"name": "x", "version": "1.0.0", "dependencies": {"is-odd": "3.0.1"}}'
_PYPROJECT = (
    '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["six==1.16.0"]\n'
)
_POM = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>b</artifactId>"
    "<version>1</version></project>"
)


@dataclass(frozen=True)
class Ecosystem:
    """A project, a command that must find its dependencies afterwards without a network, and its programs.

    `source` is the registry that has `program`: `npm`, `pip`, or empty for a program that must be on PATH.
    `lock` is a command that writes the lock file, outside the sandbox.
    """

    program: str
    files: dict[str, str]
    check: str
    source: str = ""
    lock: str = ""
    settings: tuple[str, ...] = field(default=())


ECOSYSTEMS = {
    "npm": Ecosystem("npm", {"package.json": _PACKAGE}, "node -e 'require(\"is-odd\")'"),
    "pnpm": Ecosystem(
        *("pnpm", {"package.json": _PACKAGE}, "node -e 'require(\"is-odd\")'", "npm", "pnpm install")
    ),
    "yarn": Ecosystem(
        *("yarn", {"package.json": _PACKAGE}, "node -e 'require(\"is-odd\")'", "npm", "touch yarn.lock")
    ),
    "bun": Ecosystem(
        *("bun", {"package.json": _PACKAGE}, "node -e 'require(\"is-odd\")'", "npm", "bun install")
    ),
    "pip": Ecosystem("python3", {"requirements.txt": "six==1.16.0\n"}, ".venv/bin/python -c 'import six'"),
    "uv": Ecosystem(
        "uv", {"pyproject.toml": _PYPROJECT}, ".venv/bin/python -c 'import six'", "pip", "uv lock"
    ),
    "cargo": Ecosystem(
        "cargo",
        {
            "Cargo.toml": '[package]\nname = "x"\nversion = "1.0.0"\n[dependencies]\nitoa = "1"\n',
            "src/main.rs": "fn main() {}\n",
        },
        "cargo build --offline",
    ),
    "go": Ecosystem(
        "go",
        {
            "go.mod": "module x\ngo 1.21\nrequire github.com/google/uuid v1.6.0\n",
            "main.go": 'package main\nimport "github.com/google/uuid"\nfunc main() { uuid.New() }\n',
        },
        "go build -mod=mod",
        settings=("environment.set.GOSUMDB=off",),  # the checksum database is not reachable everywhere
    ),
    "maven": Ecosystem("mvn", {"pom.xml": _POM}, "mvn --offline -q dependency:go-offline"),
}


@pytest.fixture
def project() -> Iterator[Path]:
    """A repository outside /tmp, because a sandbox has its own /tmp: the programs lie beside it."""
    with tempfile.TemporaryDirectory(prefix="sandwright-test-", dir="/var/tmp") as directory:
        project = Path(directory) / "p"
        _run(Path(directory), dict(os.environ), f"git init -q {project}")
        yield project
        for path in Path(directory).rglob("*"):  # Go makes its modules read-only
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)


@pytest.mark.parametrize("name", ECOSYSTEMS)
def test_the_printed_command_installs(project: Path, programs: Path, name: str) -> None:
    ecosystem = ECOSYSTEMS[name]
    environ = _environ(project.parent, programs, ecosystem)
    for path, text in ecosystem.files.items():
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_text(text)
    if ecosystem.lock:
        _run(project, environ, ecosystem.lock)
        shutil.rmtree(project / "node_modules", ignore_errors=True)
        shutil.rmtree(project / ".venv", ignore_errors=True)
    _run(project, environ, "sandwright init --yes --method bwrap")
    printed = re.findall(r"^  #   (sandwright .*)$", (project / "sandbox.yaml").read_text(), re.MULTILINE)
    assert len(printed) == 1
    settings = "".join(f"-s '{each}' " for each in ecosystem.settings)
    _run(project, environ, _with_private_hosts(printed[0]).replace(" -- ", f" {settings}-- ", 1))
    _run(project, environ, f"sandwright run {settings}-- {ecosystem.check}")


def _with_private_hosts(command: str) -> str:
    """The command, for registries whose names resolve to private addresses, as those of mirrors do."""
    return re.sub(
        r"network\.allow=\[([^]]*)\]",
        lambda found: (
            "network.allow=["
            + ", ".join(f"{{host: {host}, private: true}}" for host in found[1].split(","))
            + "]"
        ),
        command,
    )


def _environ(directory: Path, programs: Path, ecosystem: Ecosystem) -> dict[str, str]:
    """An environment with a separate home and the toolchains of the real one."""
    home, tools = directory / "home", directory / "p-tools"
    for each in (home, tools, directory / "run"):
        each.mkdir(mode=0o700)
    for toolchains in (".rustup", ".pyenv"):
        if (Path.home() / toolchains).is_dir():
            (home / toolchains).symlink_to(Path.home() / toolchains)
    path = f"{programs}:{os.environ['PATH']}"
    if ecosystem.source == "npm":
        _run(directory, dict(os.environ), f"npm install --silent --prefix {tools} {ecosystem.program}")
        path = f"{tools}/node_modules/.bin:{path}"
    elif ecosystem.source == "pip":
        _run(directory, dict(os.environ), f"{sys.executable} -m venv {tools}")
        _run(directory, dict(os.environ), f"{tools}/bin/pip install -q {ecosystem.program}")
        (tools / "only").mkdir()
        (tools / "only" / ecosystem.program).symlink_to(tools / "bin" / ecosystem.program)
        path = f"{tools}/only:{path}"
    elif shutil.which(ecosystem.program) is None:
        pytest.skip(f"{ecosystem.program} is not installed")
    return {**os.environ, "PATH": path, "HOME": str(home), "XDG_RUNTIME_DIR": str(directory / "run")}


def _run(directory: Path, environ: dict[str, str], command: str) -> None:
    ended = subprocess.run(
        ["sh", "-ec", command],
        cwd=directory,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}"
