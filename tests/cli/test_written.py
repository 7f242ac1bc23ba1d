"""Commands write through no link: a sandbox may have put one into the project.

Tests of outputs.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.cli.arguments import build_directory
from sandwright.cli.artifacts import changes
from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.table import COMMANDS
from sandwright.cli.functions import function_of
from sandwright.cli.program import main
from sandwright.errors import HostError, LockError, SandwrightError
from sandwright.image.dockerfile.context import DockerfileContext
from sandwright.image.export import save_archive
from sandwright.image.lockfile import write_file
from sandwright.init.init import propose
from sandwright.policy.trusted import default_build
from sandwright.render.artifact import Artifact
from sandwright.render.rendered import Rendered
from sandwright.session import denials
from sandwright.session.live_denials import DenialWriter
from support import layouts
from support.sessionrecords import CONTEXT

READ = {
    *(
        "authfile",
        "batch",
        "ca-file",
        "claims",
        "directory",
        "facts",
        "file",
        "images",
        "include",
        "key",
        "merge",
        "policy",
        "workdir",  # in the sandbox
    ),
    *("project", "public-key", "rootfs", "rows", "structure", "token", "trust", "vex", "vulnerabilities"),
}
"""Options that name a file or directory to read, wherever they are."""

BUILT = "output directory of build-images"

WRITTEN = [
    (command, option)
    for command in COMMANDS
    for option in command.arguments
    if option.metavar in ("FILE", "DIR") and option.written
]


@pytest.mark.parametrize("name", ["build-images", "lint-image", "bundle", "push-image", "sbom", "publish"])
def test_images_are_where_the_variable_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert inspect.signature(function_of(name)).parameters["output"].default == ""
    monkeypatch.setenv("SANDWRIGHT_BUILD", str(tmp_path))
    assert (build_directory(""), build_directory("other")) == (tmp_path, Path("other"))
    monkeypatch.delenv("SANDWRIGHT_BUILD")
    assert build_directory("") == Path("build")


def test_a_wheel_keeps_images_in_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images are where `run` finds them, and never in the project."""
    for module in ("sandwright.cli.arguments", "sandwright.policy.trusted"):
        monkeypatch.setattr(f"{module}.in_checkout", lambda: False)
    monkeypatch.delenv("SANDWRIGHT_BUILD", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for data, found in (
        ("", tmp_path / ".local/share"),
        ("x", tmp_path / ".local/share"),
        ("/d", Path("/d")),
    ):
        monkeypatch.setenv("XDG_DATA_HOME", data)
        assert build_directory("") == default_build() == found / "sandwright"


def test_each_file_is_read_or_written() -> None:
    """A new option that names an output has to be marked in the table of commands."""
    for command in COMMANDS:
        for option in command.arguments:
            if option.metavar in ("FILE", "DIR"):
                is_read = option.name in READ or (option.name == "output" and option.help.startswith(BUILT))
                assert option.written != is_read, (command.name, option.name)
    assert len(WRITTEN) > 20


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a link to another directory, in which no file may appear."""
    made = tmp_path / "project"
    (made / "folder").mkdir(parents=True)
    (made / "sandbox.yaml").write_text("schema: 1\nmethod: bwrap\n")
    (tmp_path / "other").mkdir()
    (made / "link").symlink_to("../other")
    monkeypatch.chdir(made)
    return made


@pytest.mark.parametrize(
    ("command", "option"), WRITTEN, ids=[f"{command.name} --{option.name}" for command, option in WRITTEN]
)
def test_no_command_writes_through_a_link(
    command: Command, option: Option, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = [each for each in command.arguments if each.required and each is not option]
    words = [word for each in needed for word in (each.flag, each.choices[0] if each.choices else "x")]
    ends = ("link/new", "link/new/below", *(["link"] if option.metavar == "DIR" else []))
    for target in (*ends, *(f"{project}/{each}" for each in ends)):
        behind = ["--", "true"] if command.takes_command else []
        assert main([command.name, *words, option.flag, target, *behind]) != 0
        assert "link is a symbolic link to ../other" in capsys.readouterr().err, target
    assert list((project.parent / "other").iterdir()) == []


def _context(project: Path) -> None:
    DockerfileContext({"Dockerfile": b"FROM x", "a/b": project / "sandbox.yaml"}, 1).write_directory(
        Path("link/context")
    )


def _archive(project: Path) -> None:
    layouts.simple(project / "image", layouts.HELLO)
    save_archive(project / "image", "linux/amd64", Path("link/x.tar"), reference="a/b:c")


def _render(project: Path) -> None:
    found = changes(Rendered("x", (Artifact("launch", b"x", "it"),), ()), Path("link/deep/x"))
    found.apply()


def _denials(_: Path) -> None:
    for wrong in DenialWriter(["link/denials"], CONTEXT).finish([denials.OmittedDenials(1)]):
        raise HostError(wrong)


def _schema(project: Path) -> None:
    (project / "sandbox.yaml").unlink()
    proposed = propose(project, method="bwrap")
    (project / ".sandbox").symlink_to("../other")
    proposed.write()


WRITERS: dict[str, Callable[[Path], None]] = {
    "dockerfile": _context,
    "export-image": _archive,
    "lock-images": lambda _: write_file(Path("link/image"), "{}"),
    "render": _render,
    "run --denials": _denials,
    "init": _schema,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_that_comes_after_the_look(name: str, project: Path) -> None:
    """The writers open each directory without following links, whatever the command looked at before."""
    (project.parent / "other/image").mkdir()
    with pytest.raises((HostError, LockError, SandwrightError), match="symbolic link"):
        WRITERS[name](project)
    assert [each.name for each in (project.parent / "other").iterdir()] == ["image"]
    assert list((project.parent / "other/image").iterdir()) == []


def test_a_context_is_whole(project: Path) -> None:
    _context_at = Path("made/context")
    DockerfileContext({"Dockerfile": b"FROM x", "a/b": project / "sandbox.yaml"}, 7).write_directory(
        _context_at
    )
    assert (_context_at / "Dockerfile").read_bytes() == b"FROM x"
    assert (_context_at / "Dockerfile").stat().st_mtime == 7
    assert (_context_at / "a/b").samefile(project / "sandbox.yaml")
