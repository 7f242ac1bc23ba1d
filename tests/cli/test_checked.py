"""A checking command without anything to check fails, and names the reason.

Tests of checked.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from sandwright.checked import Checked, require_checked
from sandwright.cli import program
from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.table import COMMANDS
from sandwright.cli.parsing import find
from sandwright.cli.program import execute, main
from sandwright.errors import VerdictError
from support import layouts

CHECK_NOTHING = {
    *(
        "init",
        "run",
        "fleet",
        "learn",
        "explain",
        "doctor",
        "status",
        "logs",
        "stop",
        "exec",
        "shell",
        "attach",
        "cleanup",
        "setup",
        "changes",
        "apply",
        "discard",
        "undo",
        "workspaces",
        "lock-diff",
    ),
    *(
        "init-image",
        "prune-images",
        "export-image",
        "dockerfile",
        "push-image",
        "pull-image",
        "bundle",
        "publish",
        "facts",
        "schema",
    ),
    *(
        "sbpl-eval",
        "seccomp-eval",
        "shim-eval",
        "trust",
        "account-setup",
        "account-remove",
        "uninstall",
        "bridge",
    ),
    "completion",
}
"""Commands that make, start or show something. Each command of the table is either here or below."""

UNREAD = ": No such file"
EMPTY: dict[str, dict[str, str]] = {
    "verify-audit": {
        "empty": "audit: no line was checked: empty is empty",
        "empty --head 00": "no line has the digest 00",
        "absent": UNREAD,
    },
    "verify": {
        "--method ,": "name a method to verify",
        "--require ,": "--require ',' names nothing",
        "--policy absent.yaml": UNREAD,
        "--claims absent.yaml": UNREAD,
    },
    "diff": {
        "sandbox.yaml absent.yaml": UNREAD,
        "--revisions HEAD": "not a git repository",
        "sandbox.yaml sandbox.yaml --method none": "no method 'none'",
    },
    "lock-images": {
        "--check --images folder": "folder holds no image definitions",
        "--check --images images none": "no image 'none'",
        "--check --images images child": "no lock was checked: child has the lock of base",
    },
    "build-images": {
        "--images folder": "folder holds no image definitions",
        "none --images images": "no image 'none'",
        "--images images --platform none": "not made for none",
    },
    "lint-image": {
        "folder": "neither an OCI layout",
        "empty": "not a tar archive, or an empty one",
        "layout": "no image in it",
        "index": "no image in it",
        "image --ref none": "no image named 'none'",
        "image --platform linux/none": "no image for linux/none",
        "image --structure tests.yaml": "tests.yaml: it has no test",
        "image --structure metadata.yaml": "metadata.yaml: it has no test that could fail",
        "image --runtime runc": "--runtime needs commandTests",
    },
    "verify-mapping": {"layout": "no image for linux/", "index": "no image for linux/"},
    "sbom": {
        "none --check": "no image 'none'",
        "debian --check": "is not an index of images",
        "gvisor --check": "no build/images/gvisor",
    },
    "attest-image": {
        "none": "build/images/none: no such file",
        "layout": "no image for linux/",
        "image --method ,": "--method ',' names nothing",
    },
    "verify-image": {
        "127.0.0.1:1/none --key key.pub": UNREAD,
        "127.0.0.1:1/none --key key.pub --packages x": "--packages are for --rebuild",
    },
    "render": {
        "--check": "not what the policy renders to: .sandbox/bwrap/args",
        "--check --policy absent.yaml": UNREAD,
        "--check --method none": "no method 'none'",
    },
    "lint": {
        "empty.sb": "empty.sb has errors",
        "empty.json": "expected a value, found the end",
        "empty": "neither a .sb, a .json nor a .yaml file",
        "absent.yaml": UNREAD,
        "p.sb --facts x": "--facts is for .yaml and .yml files",
        "sandbox.yaml -D A=b": "-D is for .sb files",
    },
    "verify-presets": {
        "--preset none": "no preset 'none'",
        "--method ,": "name a method to verify",
        "--require ,": "--require ',' names nothing",
    },
}
"""Commands that check something: arguments with nothing to check, and the reason in the message."""


NEEDS_ROOT = "only root can start containers of several users"


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with files and directories that have no content to check."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("SANDWRIGHT_TRUST_POLICY", "1")
    for name in ("empty", "empty.sb", "empty.json", "empty.yaml"):
        Path(name).write_bytes(b"")
    Path("p.sb").write_text("(version 1)\n(deny default)\n")
    Path("sandbox.yaml").write_text("schema: 1\nmethod: bwrap\n")
    Path("tests.yaml").write_text('schemaVersion: "2.0.0"\n')
    nothing = 'schemaVersion: "2.0.0"\nmetadataTest: {envVars: []}\nlicenseTests: [{files: []}]\n'
    Path("metadata.yaml").write_text(nothing)
    Path("folder").mkdir()
    layouts.Layout(Path("layout")).index()
    for name in ("index", "debian"):
        index = layouts.Layout(Path(name))
        (index.path / "oci-layout").write_bytes(b'{"imageLayoutVersion":"1.0.0"}')
        none = {"schemaVersion": 2, "mediaType": layouts.INDEX, "manifests": []}
        index.index(layouts.named(index.document(none, layouts.INDEX), "latest"))
    Path("build").mkdir()
    Path("build/images").symlink_to(tmp_path)
    layouts.simple(Path("image"), layouts.HELLO)
    for name, base in (("base", "{registry: 'registry.example/base:1'}"), ("child", "{image: base}")):
        Path("images", name).mkdir(parents=True)
        text = f"schema: 1\nbase: {base}\ndescription: x\n"
        Path("images", name, "image.yaml").write_text(text)
    return tmp_path


def test_each_command_is_classified() -> None:
    assert {each.name for each in COMMANDS} == {*CHECK_NOTHING, *EMPTY}
    assert {each.name for each in COMMANDS if each.checks} == {*EMPTY}
    assert not {*CHECK_NOTHING} & {*EMPTY}


@pytest.mark.parametrize(("name", "words"), [(name, each) for name in EMPTY for each in EMPTY[name]])
def test_with_nothing_to_check(
    name: str, words: str, nothing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, *words.split()]) not in (0, 1)
    refused = NEEDS_ROOT if name == "verify-mapping" and os.geteuid() != 0 else EMPTY[name][words]
    assert refused in capsys.readouterr().err


def test_the_hooks_check_something() -> None:
    """pre-commit passes all matching files in one call, which the command has to accept."""
    hooks = yaml.safe_load((Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text())
    assert hooks
    for hook in hooks:
        command = find(hook["entry"].split()[1])
        assert command.checks, hook["id"]
        assert not command.checks_if or f"--{command.checks_if}" in hook["entry"].split(), hook["id"]
        assert hook.get("pass_filenames") is False or command.positional[0].repeatable, hook["id"]


def fake(name: str, checks_if: str = "") -> Command:
    options = (Option("check", "", "check"), Option("smoke", "", "on by default", negatable=True))
    return Command(
        name, "images", "Do something.", options=options, checks="thing", checks_if=checks_if, example=""
    )


@pytest.mark.parametrize(
    ("given", "status"),
    [(None, 12), (0, 12), (Checked(), 12), (Checked(why="x"), 12), (Checked(2), 0), (5, 12)],
)
def test_a_new_command_that_checks_nothing(
    given: object, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new command in the table: its function doesn't have to remember anything."""
    monkeypatch.setattr(program, "function_of", lambda _: lambda **_: given)
    assert execute(fake("new-check"), {}, ()) == status
    assert ("no thing was checked" in capsys.readouterr().err) is (status == 12)


@pytest.mark.parametrize(
    ("flag", "values", "status"),
    [
        ("check", {}, 0),
        ("check", {"check": True}, 12),
        ("smoke", {}, 12),
        ("smoke", {"smoke": False}, 0),
        ("smoke", {"dry_run": True}, 0),
    ],
)
def test_a_command_that_checks_with_an_option(
    flag: str, values: dict[str, bool], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "function_of", lambda _: lambda **_: None)
    assert execute(fake("new", checks_if=flag), dict(values), ()) == status


def test_the_reason_is_named() -> None:
    with pytest.raises(VerdictError, match=r"^c: no image was checked: because$"):
        require_checked(Checked(why="because"), "image", "c")


@pytest.mark.parametrize(
    "order", [("good.yaml", "bad.yaml", "ugly.yaml"), ("ugly.yaml", "bad.yaml", "good.yaml")]
)
def test_lint_looks_at_each_file(
    order: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The call is pre-commit's: one faulty file does not prevent the check of the others."""
    monkeypatch.chdir(tmp_path)
    Path("good.yaml").write_text("schema: 1\nmethod: bwrap\n")
    Path("bad.yaml").write_text("schema: 1\nbogus: 1\n")
    Path("ugly.yaml").write_text("schema: [\n")
    assert main(["lint", *order]) == 12
    ended = capsys.readouterr()
    assert all(f"{name}:" in ended.out for name in ("bad.yaml", "ugly.yaml", "good.yaml"))
    assert {"bad.yaml", "ugly.yaml"} <= set(ended.err.replace(",", " ").split())
    assert "good.yaml" not in ended.err
    assert main(["lint", "good.yaml", "good.yaml"]) == 0


def test_lint_of_a_policy_that_is_not_resolved_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The policy may be for another machine: the report says that it was not checked completely."""
    monkeypatch.chdir(tmp_path)
    reading = "filesystem: {read: ['${NO_SUCH_VARIABLE}/x']}"
    Path("sandbox.yaml").write_text(f"schema: 1\nmethod: bwrap\n{reading}\n")
    assert main(["lint"]) == 0
    assert "were not checked, because the policy cannot be resolved here" in capsys.readouterr().out


def test_lint_takes_the_parameters_of_a_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rule = '(allow file-write* (subpath (param "TARGET_DIR")))'
    Path("p.sb").write_text(f"(version 1)\n(deny default)\n{rule}\n")
    assert main(["lint", "p.sb"]) == 12
    assert main(["lint", "p.sb", "-D", "TARGET_DIR=/Users/a/p"]) == 0
    assert main(["lint", "p.sb", "-D", "TARGET_DIR"]) == 64
    assert "param" not in json.dumps(capsys.readouterr().out.splitlines()[-1:])
