"""The shipped files: the wheel contains the package and the data directories, and works without the checkout.

Tests of resources.py.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import CommandFailed

ROOT = Path(__file__).parents[2]
DATA = ("images", "oci", "seatbelt", "seccomp")


PLATFORMS = {
    "linux/amd64": ("manylinux2014_x86_64", b"\x7fELF\x02\x01", 62),
    "linux/arm64": ("manylinux2014_aarch64", b"\x7fELF\x02\x01", 183),
    "any": ("py3-none-any", b"#!/bin/sh\n", 0),
}
"""A part of the tag, the first bytes of the command, and its machine (elf(5), e_machine)."""


def _built(out: Path, wanted: str) -> Path:
    words = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT)
    process.run(*words, timeout=180, env={**os.environ, "SANDWRIGHT_WHEEL": wanted})
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module", params=["", "any"], ids=["native", "any"])
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel for this machine, and the one for any machine."""
    return _built(tmp_path_factory.mktemp("wheel"), request.param)


@pytest.mark.parametrize("wanted", PLATFORMS)
def test_each_platform_has_its_command(wanted: str, tmp_path: Path) -> None:
    tag, head, machine = PLATFORMS[wanted]
    built = _built(tmp_path, wanted)
    assert tag in built.name
    with zipfile.ZipFile(built) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".data/scripts/sandwright"))
        content = archive.read(name)
        (metadata,) = (each for each in archive.namelist() if each.endswith(".dist-info/WHEEL"))
        pure = b"Root-Is-Purelib: true" in archive.read(metadata)
    assert content.startswith(head)
    assert not machine or int.from_bytes(content[18:20], "little") == machine
    assert pure is (wanted == "any")


def test_no_other_platform_can_be_named(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="SANDWRIGHT_WHEEL is 'beos'"):
        _built(tmp_path, "beos")


PACKAGES = ("builder/sandwright/", "builder/sandwright_kubernetes/")


def _files(root: Path) -> set[str]:
    tracked = (
        process.run("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        .stdout.decode()
        .split("\0")
    )
    return {name for name in tracked if name and (root / name).is_file()}


def test_wheel_holds_the_data_directories_and_nothing_else(wheel: Path) -> None:
    tracked = _files(ROOT)
    wanted = {f"sandwright/data/{name}" for name in tracked if name.split("/")[0] in DATA}
    wanted |= {name.removeprefix("builder/") for name in tracked if name.startswith(PACKAGES)}
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    scripts = f"{wheel.name.split('-py3')[0]}.data/scripts"
    assert shipped == wanted | {f"{scripts}/sandwright", f"{scripts}/sandwright-interpreter"}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed") / "an environment"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile")
    process.run(*pip, "--target", target, wheel, timeout=120)
    return target


def test_wheel_works_away_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from sandwright.resources import data_path; "
        "print(data_path('images', 'distroless', 'image.yaml'))"
    )
    result = process.run(sys.executable, "-P", "-c", code, installed, cwd=tmp_path)
    assert Path(result.text).is_relative_to(installed)
    command = installed / "bin" / "sandwright"
    assert process.run(command, "--help", cwd=tmp_path).text.startswith("Usage: sandwright")


@pytest.mark.parametrize("way", ["command", "link", "link to a link", "python", "name"])
def test_the_installed_command_runs_nothing_that_the_environment_adds(
    installed: Path, tmp_path: Path, way: str
) -> None:
    """Otherwise a `sitecustomize` in PYTHONPATH, perhaps the project's, would run before our code."""
    command = installed / "bin" / "sandwright"
    (tmp_path / "link").symlink_to(os.path.relpath(command, tmp_path))
    (tmp_path / "second").symlink_to(tmp_path / "link")
    planted = tmp_path / "src"
    planted.mkdir()
    for name in ("sitecustomize", "usercustomize", "sandwright", "os", "json"):
        (planted / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    words: dict[str, tuple[str | Path, ...]] = {
        "command": (command,),
        "link": (tmp_path / "link",),
        "link to a link": (tmp_path / "second",),
        "python": (sys.executable, "-E", "-P", command.with_name("sandwright-interpreter")),
        "name": ("env", "sandwright"),
    }
    added = {"PYTHONPATH": f"{planted}:.", "PYTHONSTARTUP": str(planted / "os.py"), "PYTHONUSERBASE": "."}
    path = {"PATH": f"{command.parent}:{os.environ['PATH']}"}
    ended = process.run(*words[way], "--version", cwd=planted, env={**os.environ, **added, **path})
    assert ended.text.startswith("sandwright ")
    assert not (tmp_path / "ran").exists()
    (planted / "sandbox.yaml").write_text(
        "schema: 1\nmethod: bwrap\nextends: []\nfilesystem: {write: [$PROJECT]}\n"
    )
    home = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": ""}
    with pytest.raises(CommandFailed, match="PYTHONPATH names"):
        process.run(*words[way], "render", cwd=planted, env={**os.environ, **added, **path, **home})
    assert not (tmp_path / "ran").exists()


def test_top_level_is_the_fixed_one() -> None:
    tops = {name.split("/")[0] for name in _files(ROOT)}
    allowed = {"tasks.py", "pyproject.toml", *DATA, "builder", "tests", "README.md"}
    allowed |= {".ci", ".gitignore", "benchmarks", "CHANGELOG.md", "LICENSE", ".github", "docs"}
    allowed |= {"action.yml", ".pre-commit-hooks.yaml"}  # GitHub and pre-commit look for them there
    allowed |= {"CONTRIBUTING.md", "NOTICE", "SECURITY.md", ".editorconfig", ".pre-commit-config.yaml"}
    assert tops <= allowed


def test_the_command_and_the_tasks_offer_the_same(tmp_path: Path) -> None:
    bins = Path(sys.executable).parent
    by_invoke = process.run(bins / "invoke", "--list", cwd=ROOT).text
    by_command = process.run(bins / "sandwright", "--list", cwd=tmp_path).text
    _, _, groups = by_command.partition("Every day:\n")
    offered = {line.split()[0] for line in groups.splitlines() if line.startswith("  ")}
    assert {"setup", "lock-images", "build-images", "bundle"} <= offered
    assert offered <= {line.split()[0] for line in by_invoke.splitlines() if line.strip()}
