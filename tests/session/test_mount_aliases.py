"""A path that a policy denies or protects is closed at every path at which a mount shows it.

Tests of mount_aliases.py.
Tests of policy/mounted.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from session.conftest import WAIT, Project
from session.test_reserved_mounts import mounted, run_mounted
from session.test_run_containers import busybox_root
from support.thorough import covering

ATTACK = """
cd "$1" || exit 9
cat .netrc .ssh/id p/.env 2>/dev/null && echo READ
for each in p/sandbox.yaml p/.git/config p/.git/hooks/x p/deep/.git/config p/ro/x p/.envrc .netrc .ssh/new; do
    echo planted 2>/dev/null >"$each" && echo "WROTE $each"
done
echo fine >p/file && cat p/file
"""

METHODS = [
    pytest.param("bwrap", marks=pytest.mark.needs("bwrap", "unshare")),
    pytest.param("oci", marks=pytest.mark.needs("runc", "busybox", "unshare")),
    pytest.param("gvisor", marks=pytest.mark.needs("runsc", "busybox", "unshare")),
]


@pytest.fixture
def person() -> Iterator[Project]:
    """A home outside /tmp, with secrets, and a project with repositories."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="sandwright-test-") as made:
        project = Project(Path(made, "home", "p"), Path(made, "home"), Path(made, "run"))
        project.runtime.mkdir(mode=0o700)
        for name in (".ssh/id", "p/.env", "p/.git/config", "p/.git/hooks/x", "p/deep/.git/config", "p/ro/x"):
            (project.home / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            (project.home / name).write_text("a secret\n")
        for directory in ("p", "p/deep"):
            (project.home / directory / ".git" / "config").write_text("")
            (project.home / directory / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
            for name in ("objects", "refs"):
                (project.home / directory / ".git" / name).mkdir()
        (project.home / ".netrc").write_text("a secret\n")
        project.environment["SANDWRIGHT_TRUST"] = "1"
        yield project


@pytest.mark.parametrize("method", METHODS)
def test_at_a_second_mount(person: Project, method: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """This holds even if the rendering was stored before the mount existed."""
    alias = person.home.parent / "alias"
    alias.mkdir()
    image = ""
    if method != "bwrap":
        root = tmp_path_factory.mktemp("root")
        busybox_root(root)
        person.environment["SANDWRIGHT_ROOTFS"] = str(root)
        image = "image: small\nenvironment: {set: {PATH: /bin}}\n"
    person.policy.write_text(
        f"schema: 1\nmethod: {method}\n{image}filesystem:\n"
        f"  read: [{alias}]\n  write: [$PROJECT, {alias}/p]\n"
        "  readonly: [$PROJECT/ro]\n  deny: [$PROJECT/.env, ~/.ssh, ~/.netrc]\n"
    )
    kept = {path: path.read_bytes() for path in person.home.rglob("*") if path.is_file()}
    for _ in range(2):
        assert person.run("true").returncode == 0
        ended = run_mounted(person, person.home, alias, "sh", "-c", ATTACK, "sh", str(alias))
        assert (ended.returncode, ended.stdout) == (0, b"fine\n"), ended.stderr
        (person.root / "file").unlink()
    assert {path: path.read_bytes() for path in kept} == kept


@pytest.mark.needs("bwrap", "unshare")
@pytest.mark.parametrize("name", ["line\nbreak", "line\n/break", "line\\012break"])
def test_at_a_mount_whose_name_has_a_line_break(person: Project, name: str) -> None:
    """Also if a directory has the end of the name as its own name."""
    alias = person.home.parent / "aliases" / name
    alias.mkdir(parents=True)
    person.policy.write_text(
        f"schema: 1\nmethod: bwrap\nfilesystem:\n  read: [{alias.parent}]\n"
        f"  write: [$PROJECT, {json.dumps(str(alias / 'p'))}]\n"
        "  readonly: [$PROJECT/ro]\n  deny: [$PROJECT/.env, ~/.ssh, ~/.netrc]\n"
    )
    for _ in range(2):
        assert person.run("true").returncode == 0
        ended = run_mounted(person, person.home, alias, "sh", "-c", ATTACK, "sh", str(alias))
        assert (ended.returncode, ended.stdout) == (0, b"fine\n"), ended.stderr
        (person.root / "file").unlink()


GAPS = ", ".join(
    f"{{feature: {name}, method: landlock, reason: a test}}"
    for name in ("filesystem.attributes", "filesystem.protect", "process.kernel")
)


@pytest.mark.needs("bwrap", "unshare")
@pytest.mark.parametrize("method", ["bwrap", "landlock", "vm"])
@pytest.mark.parametrize("shown", [".ssh", ".local/state/sandwright/keys"])
def test_at_a_mount_that_no_rule_can_name(person: Project, method: str, shown: str) -> None:
    """Its name is not UTF-8. Below a denied directory it does not matter."""
    (person.home / shown).mkdir(mode=0o700, parents=True, exist_ok=True)
    (person.home / shown / "id").write_text("a secret\n")
    alias = person.root / "aliases" / os.fsdecode(b"not-utf-8-\xff")
    alias.mkdir(parents=True)
    policy = f"schema: 1\nmethod: {method}\naccept_gaps: [{GAPS}]\nfilesystem:\n  write: [$PROJECT]\n"
    script = "cat aliases/*/id; echo fine"
    person.policy.write_text(f"{policy}  deny: [~/.ssh]\n")
    assert person.run("sh", "-c", script).stdout == b"fine\n"
    ended = run_mounted(person, person.home / shown, alias, "sh", "-c", script)
    assert (ended.returncode, ended.stdout) == (125, b""), ended.stderr
    assert b"not-utf-8-\\udcff (" in ended.stderr
    assert b"its path is not UTF-8, or too long" in ended.stderr
    if method != "landlock":
        person.policy.write_text(f"{policy}  deny: [~/.ssh, $PROJECT/aliases]\n")
        ended = run_mounted(person, person.home / shown, alias, "sh", "-c", script)
        assert (ended.returncode, ended.stdout) == (0, b"fine\n"), ended.stderr


@pytest.mark.parametrize(
    ("method", "first", "mounted_on_itself"),
    covering(METHODS, covering([False, True], ["ro/below", "hidden/below", ".git/hooks"], thorough=True)),
)
def test_at_a_mount_on_itself(
    person: Project,
    method: str,
    first: bool,
    mounted_on_itself: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """It is no other path: a rule for the directory above applies to it.

    `first`: the mount exists before the sandbox is rendered.
    """
    image = ""
    if method != "bwrap":
        root = tmp_path_factory.mktemp("root")
        busybox_root(root)
        person.environment["SANDWRIGHT_ROOTFS"] = str(root)
        image = "image: small\nenvironment: {set: {PATH: /bin}}\n"
    person.policy.write_text(
        f"schema: 1\nmethod: {method}\n{image}filesystem:\n"
        "  write: [$PROJECT]\n  readonly: [$PROJECT/ro]\n  deny: [$PROJECT/hidden]\n"
    )
    for name in ("ro/below/x", "hidden/below/x"):
        (person.root / name).parent.mkdir(parents=True, exist_ok=True)
        (person.root / name).write_text("a secret\n")
    place = person.root / mounted_on_itself
    script = """
        cat hidden/below/x 2>/dev/null && echo READ
        for each in ro/below/x ro/below/new hidden/below/x hidden/below/new .git/hooks/x .git/hooks/new; do
            echo planted 2>/dev/null >"$each" && echo "WROTE $each"
        done
        echo fine >file && cat file
    """
    assert first or person.run("true").returncode == 0
    ended = run_mounted(person, place, place, "sh", "-c", script)
    assert (ended.returncode, ended.stdout) == (0, b"fine\n"), ended.stderr
    assert (person.root / "file").exists(), "the control: the project can be written"


@pytest.mark.needs("bwrap", "unshare")
@pytest.mark.parametrize(("home", "granted"), covering(["private", "throwaway"], [False, True]))
def test_a_second_mount_of_the_home_that_the_sandbox_replaces(
    person: Project, home: str, granted: bool
) -> None:
    """Rules for the home have no effect at its own path, but at the other. A grant there shows the rest."""
    alias = person.home.parent / "alias"
    alias.mkdir()
    (person.home / "notes").write_text("notes\n")
    read = f"[/, {alias}]" if granted else "[/]"
    person.policy.write_text(
        f"schema: 1\nmethod: bwrap\nfilesystem:\n  home: {home}\n  read: {read}\n"
        "  write: [$PROJECT]\n  deny: [$PROJECT/.env, ~/.ssh, ~/.netrc]\n"
    )
    script = 'cd "$1"; cat notes .netrc .ssh/id p/.env; echo x > ~/.netrc; cat ~/.netrc; touch ~/p/made'
    ended = run_mounted(person, person.home, alias, "sh", "-c", script, "sh", str(alias))
    assert (ended.returncode, ended.stdout) == (0, b"notes\n" * granted + b"x\n"), ended.stderr
    assert (person.root / "made").exists()


@pytest.mark.needs("bwrap", "unshare")
def test_explain_names_the_mount(person: Project) -> None:
    alias = person.home.parent / "alias"
    alias.mkdir()
    person.policy.write_text("schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT], deny: [~/.ssh]}\n")
    words = ["explain", "read", f"{alias}/.ssh/id"]
    ended = subprocess.run(
        mounted(person.home, alias, *person.command, *words),
        cwd=person.root, env=person.environ, capture_output=True, timeout=WAIT, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert b"denied by deny ~/.ssh" in ended.stdout
    assert b"agrees" in ended.stdout
