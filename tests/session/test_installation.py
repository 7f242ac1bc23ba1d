"""An upgrade of this program makes the render cache stale: modules, data, packages, interpreter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import sandwright
from session.conftest import Project
from support import fronts, standby
from support.thorough import representative

pytestmark = [pytest.mark.needs("bwrap", "git"), pytest.mark.real_start]
PACKAGE = Path(sandwright.__file__).parent
KUBERNETES = PACKAGE.with_name("sandwright_kubernetes")
POINTS = "[sandwright.methods]\nkubernetes = sandwright_kubernetes:METHOD\n"
DATA = ("images", "oci", "seatbelt", "seccomp")


@dataclass
class Installation:
    """A virtual environment with a copy of this program, like an installed wheel."""

    folder: Path
    project: Project
    log: Path

    @property
    def packages(self) -> Path:
        return next((self.folder / "lib").glob("python3*/site-packages"))

    def started(self) -> list[str]:
        """The reasons why a run started Python."""
        self.log.write_text("")
        ended = self.project.run("true")
        assert ended.returncode == 0, ended
        return self.log.read_text().split()


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this program, whose modules are compiled once for all tests here."""
    packages, ignored = tmp_path_factory.mktemp("copied"), shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, packages / "sandwright", ignore=ignored)
    shutil.copytree(KUBERNETES, packages / KUBERNETES.name, ignore=ignored)
    for name in DATA:
        shutil.copytree(PACKAGE.parents[1] / name, packages / "sandwright" / "data" / name, ignore=ignored)
    code = f"import sys; sys.path[:0] = [{str(packages)!r}]; import {', '.join(standby.IMPORTED)}"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
    return packages


@pytest.fixture
def installation(project: Project, tmp_path: Path, copied: Path) -> Installation:
    folder, log = tmp_path / "venv", tmp_path / "log"
    venv.create(folder, symlinks=True)
    made = Installation(folder, project, log)
    packages = made.packages
    shutil.copytree(copied, packages, dirs_exist_ok=True)
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    _metadata(packages / "sandwright-0.1.0.dist-info", "sandwright", POINTS)
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\necho start >>{log}\nexec {folder}/bin/python3 "$@"\n')
    wrapper.chmod(0o755)
    made.project = replace(project, command=(str(fronts.installed(folder / "bin", str(wrapper))),))
    for _ in range(8):
        if not made.started():
            return made
    raise AssertionError("Python is started by every run")


def _metadata(folder: Path, name: str, more: str = "") -> None:
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (folder / "entry_points.txt").write_text(more)


def _edited(path: Path) -> None:
    """Change a byte in a comment, with the same size and time."""
    before, content = path.stat(), path.read_bytes()
    path.write_bytes(content[:-2] + b" \n" if content.endswith(b"\n\n") else content[:3] + b"X" + content[4:])
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _plugin(packages: Path) -> None:
    _metadata(packages / "other-1.dist-info", "other", "[sandwright.methods]\nother = other:METHOD\n")
    (packages / "other.py").write_text("METHOD = None\n")


def _upgraded(packages: Path) -> None:
    (packages / "sandwright-0.1.0.dist-info").rename(packages / "sandwright-0.2.0.dist-info")


def _moved_interpreter(installation: Installation) -> None:
    """Build the environment for another interpreter: here the same one, by another path."""
    link = installation.folder / "bin/python3"
    target = os.path.realpath(link)
    link.unlink()
    (installation.folder / "bin/another").symlink_to(target)
    link.symlink_to("another")


CHANGES: dict[str, Callable[[Installation], object]] = {
    "a module, with the same size and time": lambda i: _edited(
        i.packages / "sandwright/policy/policy_warnings.py"
    ),
    "a module that is touched": lambda i: os.utime(i.packages / "sandwright/errors.py"),
    "a module more": lambda i: (i.packages / "sandwright/policy/more.py").write_text(""),
    "a module less": lambda i: (i.packages / "sandwright/session/doctor.py").unlink(),
    "data, with the same size and time": lambda i: _edited(
        next((i.packages / "sandwright/data/oci").rglob("*.json"))
    ),
    "a preset": lambda i: (i.packages / "sandwright/policy/presets/more.yaml").write_text("{}"),
    "a native program": lambda i: os.utime(next(i.packages.glob("sandwright/launcher/programs/*/launch"))),
    "an upgraded package": lambda i: _upgraded(i.packages),
    "a method of somebody else's": lambda i: _plugin(i.packages),
    "a path that is added": lambda i: (i.packages / "others.pth").write_text(
        f"{sysconfig.get_path('purelib')}\n{i.folder}\n"
    ),
    "the environment's settings": lambda i: (i.folder / "pyvenv.cfg").write_text(
        (i.folder / "pyvenv.cfg").read_text() + "x = y\n"
    ),
    "another interpreter": _moved_interpreter,
}


def test_another_version_renders_anew(installation: Installation) -> None:
    for change in representative(
        CHANGES,
        *("a module, with the same size and time", "a module more", "data, with the same size and time"),
        *("a native program", "an upgraded package", "a path that is added", "another interpreter"),
    ):
        CHANGES[change](installation)
        assert installation.started()[:1] == ["start"], change
        assert [] in (installation.started() for _ in range(8)), f"{change}: it is rendered"


def test_a_cache_of_compiled_modules_is_no_change(installation: Installation) -> None:
    shutil.rmtree(installation.packages / "sandwright/session/__pycache__")
    assert min((installation.started() for _ in range(4)), key=len) == []
