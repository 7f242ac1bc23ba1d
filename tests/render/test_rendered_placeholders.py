"""Placeholders: programs inside cannot create a protected name, and no placeholder stays on the host.

Tests of render/placeholders.py.
"""

# A row of a table is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.inputs import LiveHost
from sandwright.methods import registry
from sandwright.methods.registry import render
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.load import layer
from sandwright.policy.uses import check_expressible
from sandwright.questions import is_placeholder
from sandwright.render.mounts import mount_plan
from sandwright.render.placeholders import Placeholder
from support.launchers import launcher_of
from support.waiting import until

PATIENCE = 60
POLICY = "method: bwrap\nfilesystem: {deny: [$PROJECT/.env], readonly: [$PROJECT/src/made/later]}\n"
GIT = ("git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a repository and very few files."""
    project = tmp_path / "home" / "p"
    project.mkdir(parents=True)
    process.run("git", "init", "-q", project, env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    (project / "src").mkdir()
    (project / "src" / "code").write_text("x")
    return project


def _launcher(project: Path, out: Path, policy: str = POLICY) -> str:
    """A launcher as `render` writes it, for the current state of the host."""
    return str(launcher_of(policy, "bwrap", out, project=project))


def _run(launcher: str, script: str) -> process.Result:
    return process.run(launcher, "sh", "-c", script, timeout=PATIENCE, check=False)


def _tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below a directory, with its mode and content; some may disappear meanwhile."""
    found = {}
    for directory, names, files in os.walk(folder):
        for path in (Path(directory, name) for name in (*names, *files)):
            with contextlib.suppress(FileNotFoundError):
                content = path.read_bytes() if path.is_file() else b""
                found[path.relative_to(folder).as_posix()] = path.lstat().st_mode, content
    return found


ATTEMPTS = """\
cd "$1"
attempt() { "$@" 2>/dev/null && echo "MADE $*"; }
for name in .envrc .vscode .mcp.json sandbox.yaml .claude .env; do
    attempt sh -c 'echo x >"$1"' sh "$name"
    attempt mkdir "$name"
    attempt ln -s /etc/passwd "$name"
    attempt cp src/code "$name/x"
    attempt mv src/code "$name"
    attempt rmdir "$name"
    attempt mv "$name" moved; rm -rf moved
    attempt sh -c 'rmdir "$1" && echo x >"$1"' sh "$name"
done
attempt sh -c 'echo x >.vscode/tasks.json'
attempt mkdir .claude/agents
attempt mkdir -p src/made/later
attempt sh -c 'echo x >src/made'
attempt mv src away
for name in commondir config.worktree info/attributes; do
    attempt sh -c 'echo x >"$1"' sh ".git/$name"
    attempt mv ".git/$name" moved; rm -f moved
    attempt rm -f ".git/$name"
done
attempt mv .git away
echo works >src/control && mkdir src/directory && rmdir src/directory && cat src/control && rm src/control
"""


@pytest.mark.needs("bwrap", "git")
def test_nobody_makes_a_name_that_is_restricted(project: Path, tmp_path: Path) -> None:
    before = _tree(project)
    result = _run(_launcher(project, tmp_path / "out"), f"set -- '{project}'\n{ATTEMPTS}")
    assert (result.status, result.text) == (0, "works"), result.stderr
    assert _tree(project) == before


@pytest.mark.needs("bwrap", "git")
def test_without_the_covers_each_can_be_made(project: Path, tmp_path: Path) -> None:
    """The control: the same attempts succeed without restrictions."""
    open_ = "method: bwrap\nextends: []\nfilesystem: {read: [/], write: [$PROJECT]}\n"
    said = _run(_launcher(project, tmp_path / "out", open_), f"set -- '{project}'\n{ATTEMPTS}").text
    for name in (".envrc", ".vscode", ".mcp.json", ".claude", ".env"):
        assert f'MADE sh -c echo x >"$1" sh {name}' in said
    assert "MADE mv .git away" not in said  # a Git directory is a mount under every policy
    assert 'MADE sh -c echo x >"$1" sh sandbox.yaml' not in said  # built in


@pytest.mark.needs("bwrap", "git")
def test_root_of_the_sandbox_makes_none_either(project: Path, tmp_path: Path) -> None:
    before = _tree(project)
    launcher = _launcher(project, tmp_path / "out", f"{POLICY}process: {{sandbox_root: true}}\n")
    result = _run(launcher, f"set -- '{project}'\n{ATTEMPTS}")
    assert (result.status, result.text) == (0, "works"), result.stderr
    assert _tree(project) == before


@pytest.mark.needs("bwrap", "git")
def test_what_lifts_the_mode_of_a_cover_reaches_nothing_of_the_host(project: Path, tmp_path: Path) -> None:
    before = _tree(project)
    script = f"cd '{project}'; chmod 755 .vscode && echo x >.vscode/tasks.json; cat .vscode/tasks.json"
    result = _run(_launcher(project, tmp_path / "out"), script)
    assert result.text == "x"  # in the sandbox's own memory
    assert _tree(project) == before


@pytest.mark.needs("bwrap", "git")
def test_git_sees_no_cover(project: Path, tmp_path: Path) -> None:
    """Git ignores placeholders inside and outside, while a run is active."""
    git = " ".join(GIT)
    script = (
        f"cd '{project}' && {git} add -A && {git} commit -qm one && {git} status --short; echo up; read x"
    )
    launcher = _launcher(project, tmp_path / "out")
    with process.start(launcher, "sh", "-c", script, stdin=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        assert (project / ".vscode").is_dir()
        assert process.run("git", "-C", project, "status", "--short", "-uall").text == ""
        assert process.run("git", "-C", project, "ls-files").text == "src/code"
        assert run.stdin is not None
        run.stdin.close()
        assert run.wait(timeout=PATIENCE) == 1  # of `read` at the end


@pytest.mark.needs("bwrap", "git")
@pytest.mark.parametrize("killed", ["launcher", "both"])
def test_nothing_stays_when_it_is_killed(project: Path, tmp_path: Path, killed: str) -> None:
    """The monitor removes the placeholders; if it was killed, too, the next run does."""
    before, launcher = _tree(project), _launcher(project, tmp_path / "out")
    with process.start(launcher, "sh", "-c", "echo up; sleep 50") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == b"up\n", running.stderr.read()
        assert (project / ".envrc").is_dir()
        if killed == "both":
            running.send_signal(signal.SIGSTOP)
            for each in _watching(launcher):
                with contextlib.suppress(ProcessLookupError):  # one may end with another
                    os.kill(each, signal.SIGKILL)
        running.kill()
        running.wait(timeout=PATIENCE)
    if killed == "both":
        assert (project / ".envrc").is_dir()
        assert _run(launcher, f"echo x >'{project}/.envrc'").status != 0
    until(lambda: _tree(project) == before)


def _watching(launcher: str) -> list[int]:
    """The processes of a launcher's program."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/exe"):
        with contextlib.suppress(OSError):
            found += [int(entry.parent.name)] if str(entry.readlink()) == launcher else []
    return found


@pytest.mark.needs("bwrap", "git")
def test_one_that_starts_beside_another_keeps_them(project: Path, tmp_path: Path) -> None:
    """It reads the host while the placeholders of the first exist, and outlives it."""
    before = _tree(project)
    first = _launcher(project, tmp_path / "first")
    wait = "echo up; read x"
    make = f"read x; cd '{project}'; echo x >.envrc; mkdir .vscode; echo 1 >.git/commondir; echo"
    with process.start(first, "sh", "-c", wait, stdin=subprocess.PIPE) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == b"up\n"
        launcher = _launcher(project, tmp_path / "second")
        again = (tmp_path / "second" / "args").read_bytes()
        assert again == (tmp_path / "first" / "args").read_bytes()
        with process.start(launcher, "sh", "-c", f"echo up; {make}", stdin=subprocess.PIPE) as two:
            assert two.stdout is not None
            assert two.stdout.readline() == b"up\n"
            assert one.stdin is not None
            assert two.stdin is not None
            one.stdin.close()
            one.wait(timeout=PATIENCE)
            assert (project / ".envrc").is_dir()
            until(lambda: not _watching(first))  # they would pile up in a busy project
            two.stdin.close()
            two.wait(timeout=PATIENCE)
    until(lambda: _tree(project) == before)


@pytest.mark.needs("bwrap", "git")
def test_where_modes_are_not_kept_they_go_too(project: Path, tmp_path: Path) -> None:
    """A stand-in makes them as on a file system without modes."""
    before, launcher = _tree(project), _launcher(project, tmp_path / "out")
    words = (tmp_path / "out" / "args").read_text().split("\0")
    made = shlex.join(words[index + 1] for index, word in enumerate(words) if word == "--dir")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "bwrap").write_text(f'#!/bin/sh\nmkdir {made}\nexec {process.which("bwrap")} "$@"\n')
    (programs / "bwrap").chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    script = f"cd '{project}'; echo x >.envrc; rmdir .vscode; echo x >.vscode/x; ls -A .vscode; echo ran"
    result = process.run(launcher, "sh", "-c", script, env=env, timeout=PATIENCE, check=False)
    assert (result.status, result.text) == (0, ".gitignore\nran"), result.stderr
    assert _tree(project) == before


@pytest.mark.needs("bwrap", "git")
def test_what_others_made_stays(project: Path, tmp_path: Path) -> None:
    """Other users' empty directories stay, and so do placeholders that contain files."""
    launcher = _launcher(project, tmp_path / "out")
    with process.start(launcher, "sh", "-c", "echo up; read x", stdin=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        (project / ".vscode").chmod(0o755)
        (project / ".idea").rmdir()
        (project / ".idea").mkdir()
        (project / ".envrc").rmdir()
        (project / ".envrc").write_text("mine")
        (project / ".husky").chmod(0o1755)
        (project / ".husky" / "hook").write_text("mine")
        (project / ".git" / "commondir").unlink()
        (project / ".git" / "commondir").write_text("../elsewhere\n")
        assert running.stdin is not None
        running.stdin.close()
        running.wait(timeout=PATIENCE)
    until(lambda: not (project / ".mcp.json").exists())
    left = {".vscode", ".idea", ".envrc", ".husky"}
    assert {path.name for path in project.iterdir()} == left | {"src", ".git"}
    assert (project / ".envrc").read_text() == "mine"
    assert (project / ".git" / "commondir").read_text() == "../elsewhere\n"


@pytest.mark.needs("bwrap", "git")
@pytest.mark.parametrize("there", ["file", "directory", "link"])
def test_nothing_runs_where_one_appeared(project: Path, tmp_path: Path, there: str) -> None:
    launcher = _launcher(project, tmp_path / "out")
    path = project / ".mcp.json"
    match there:
        case "file":
            path.touch()
        case "directory":
            path.mkdir()
        case _:
            path.symlink_to("nowhere")
    before = _tree(project)
    result = _run(launcher, "echo ran")
    assert (result.status, result.text) == (125, "")
    assert result.stderr == f"sandbox: {path} appeared after this was rendered: render it again\n"
    until(lambda: _tree(project) == before)


@pytest.mark.needs("bwrap", "git")
def test_nothing_runs_where_none_can_be_made(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))  # /run/sandwright is not this root's
    before, launcher = _tree(project), _launcher(project, tmp_path / "out")
    script = f'mount -t tmpfs -o ro none "{project}/src" && exec "{launcher}" echo ran'
    argv = ("unshare", "--map-root-user", "--mount", "sh", "-c", script)
    result = process.run(*argv, timeout=PATIENCE, check=False)
    assert (result.status, result.text) == (125, "")
    assert f"cannot write {project}/src, which the policy makes writable" in result.stderr
    until(lambda: _tree(project) == before)


@pytest.mark.parametrize(
    ("name", "mode", "content", "ours"),
    [
        pytest.param(".envrc", 0o1555, None, True, id="directory"),
        pytest.param(".envrc", 0o0555, None, False, id="no sticky directory"),
        pytest.param(".envrc", 0o1755, None, False, id="writable directory"),
        pytest.param(".envrc", 0o1777, None, False, id="everybody's directory"),
        pytest.param("commondir", 0o444, b".\n", True, id="commondir"),
        pytest.param("commondir", 0o444, b"x\n", False, id="another commondir"),
        pytest.param("commondir", 0o644, b".\n", False, id="writable commondir"),
        pytest.param("config.worktree", 0o444, b"", True, id="configuration"),
        pytest.param("config", 0o444, b"[core]\n", False, id="configuration with something in it"),
        pytest.param(".envrc", 0o444, b"", False, id="no file of Git's"),
    ],
)
def test_placeholders_are_recognised(
    tmp_path: Path, name: str, mode: int, content: bytes | None, *, ours: bool
) -> None:
    """A question to the host answers that a placeholder does not exist; other entries are reported."""
    path = tmp_path / name
    path.mkdir() if content is None else path.write_bytes(content)
    path.chmod(mode)
    assert is_placeholder(str(path), path.lstat()) is ours
    assert (LiveHost().kind(str(path)) is None) is ours
    if content is None and ours:
        path.chmod(0o1755)
        (path / "filled").touch()
        path.chmod(0o1555)
        assert not is_placeholder(str(path), path.lstat())


DIRECTORY = HostEntry("directory")
HOST = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    entries=dict.fromkeys(
        ("/", "/home", "/home/u", "/home/u/p", "/home/u/p/src", "/srv", "/srv/w"), DIRECTORY
    ),
)


def _covers(text: str, *there: str) -> dict[str, Placeholder]:
    policy = Policy.from_text(f"method: bwrap\nextends: []\n{text}")
    facts = HOST.with_entries(dict.fromkeys(there, DIRECTORY))
    return {each.path: each for each in mount_plan(policy.resolve(facts), root="host").placeholders}


BUILT_IN = ["/home/u/p/.sandbox", "/home/u/p/sandbox.yaml"]


@pytest.mark.parametrize(
    ("text", "there", "paths"),
    [
        pytest.param("filesystem: {write: [$PROJECT]}", [], [], id="what is built in"),
        pytest.param("filesystem: {read: [$PROJECT]}", [], None, id="nothing where nothing is written"),
        pytest.param("filesystem: {write: [/srv/w]}", [], None, id="nothing elsewhere"),
        pytest.param("filesystem: {write: [$PROJECT], protect: [a]}", [], ["a"], id="protected"),
        pytest.param("filesystem: {write: [$PROJECT], protect: [a]}", ["a"], [], id="protected and there"),
        pytest.param("filesystem: {write: [$PROJECT], protect: [a/b/c, a/d]}", [], ["a"], id="on the way"),
        pytest.param("filesystem: {write: [$PROJECT], protect: [a/b/c]}", ["a"], ["a/b"], id="part of the way"),
        pytest.param("filesystem: {write: [$PROJECT], deny: [$PROJECT/a]}", [], ["a"], id="denied"),
        pytest.param("filesystem: {write: [$PROJECT], readonly: [$PROJECT/src/a]}", [], ["src/a"], id="read-only"),
        pytest.param("filesystem: {write: [$PROJECT], deny: [$PROJECT/a, $PROJECT/a/b]}", [], ["a"], id="once"),
        pytest.param("filesystem: {write: [$PROJECT], readonly: [$PROJECT/src], deny: [$PROJECT/src/a]}", [], [], id="in what is read-only"),
        pytest.param("filesystem: {write: [$PROJECT, $PROJECT/a/b], protect: [a]}", [], ["a"], id="nothing is there to write"),
        pytest.param("filesystem: {write: [$PROJECT], protect: [.git/hooks]}", [], [".git", "commondir", "refs"], id="git init"),
    ],
)  # fmt: skip
def test_what_is_covered(text: str, there: list[str], paths: list[str] | None) -> None:
    wanted = [] if paths is None else sorted([*BUILT_IN, *(f"/home/u/p/{path}" for path in paths)])
    assert list(_covers(text, *(f"/home/u/p/{each}" for each in there))) == wanted


@pytest.mark.parametrize(
    ("there", "placeholder"),
    [((), "fish"), (("fish",), "fish/config.fish"), (("fish", "fish/config.fish"), "")],
)
def test_a_name_of_the_home_directory_in_the_project_is_covered(
    there: tuple[str, ...], placeholder: str
) -> None:
    """The project is `~/.config`: protected names below the home directory lie in it."""
    project = "/home/u/.config"
    entries = (project, *(f"{project}/{each}" for each in there))
    facts = replace(HOST, project=project).with_entries(dict.fromkeys(entries, DIRECTORY))
    text = "filesystem: {write: [$PROJECT], protect: [.config/fish/config.fish, .zshrc]}"
    policy = Policy.from_text(f"method: bwrap\nextends: []\n{text}").resolve(facts)
    found = [each.path for each in mount_plan(policy, root="host").placeholders]
    assert f"{project}/.zshrc" in found
    assert [each for each in found if "fish" in each] == [f"{project}/{placeholder}"] * bool(placeholder)
    assert render(policy, "bwrap").artifacts  # the gate accepts it


def test_what_is_lifted_is_not_covered() -> None:
    user = "filesystem: {protect: [a]}"
    project = "filesystem: {write: [$PROJECT], unprotect: [{path: $PROJECT/a, reason: it is generated}]}"
    layers = [layer(user, kind="user"), layer(f"method: bwrap\nextends: []\n{project}")]
    policy = Policy.from_layers(layers)
    assert [each.path for each in mount_plan(policy.resolve(HOST), root="host").placeholders] == BUILT_IN


@pytest.mark.parametrize("method", ["bwrap", "docker", "podman", "gvisor", "oci"])
def test_what_is_not_covered_is_told(method: str) -> None:
    """A directory outside the project is not reported if it is read-only."""
    for writes, found in (("$PROJECT, /srv/w", ["filesystem.protect-elsewhere"]), ("$PROJECT", [])):
        text = f"method: bwrap\nextends: []\nfilesystem: {{write: [{writes}]}}\n"
        findings = check_expressible(Policy.from_text(text).resolve(HOST), registry.declaration(method))
        partly = [each.use.feature for each in findings if each.kind == "partly"]
        assert [each for each in partly if each.startswith("filesystem")] == found
