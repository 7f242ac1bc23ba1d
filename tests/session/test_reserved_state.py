"""A sandbox can't change sandwright's own state, and no forged state is used."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.session.entry import CacheEntry, entry_bytes
from session.conftest import SANDWRIGHT, WAIT, Project
from session.entries import entries, entry, sandbox, touching, write
from support.thorough import covering
from support.waiting import until

pytestmark = pytest.mark.needs("bwrap")

ACCEPTED = (
    "filesystem.attributes",
    "filesystem.protect",
    "filesystem.readonly",
    "filesystem.deny-inside",
    "filesystem.absent",
    "filesystem.absent-elsewhere",
    "process.kernel",
)
LANDLOCK = f"""\
schema: 1
method: landlock
network: {{mode: none}}
filesystem: {{read: [/usr, /etc], write: [$PROJECT, WRITE]}}
accept_gaps: [{", ".join(f"{{feature: {name}, method: landlock, reason: a test}}" for name in ACCEPTED)}]
"""


@pytest.mark.parametrize(
    ("grant", "command"),
    covering(
        ["~/.cache", "~/.config", "~/.local", "~/.local/state"],
        ["run", "render", "verify", "lint", "explain"],
    ),
)
def test_landlock_refuses_a_grant_above_it(project: Project, grant: str, command: str) -> None:
    """This holds for each command and policy: Landlock removes no right below a granted directory."""
    (project.home / grant[2:]).mkdir(parents=True, exist_ok=True)
    project.policy.write_text(LANDLOCK.replace("WRITE", grant))
    words = {"run": ("run", "--", "touch", "ran"), "explain": ("explain", "write", f"{grant}/sandwright/x")}
    ended = project.sandwright(*words.get(command, (command,)))
    said = (ended.stdout + ended.stderr).decode()
    assert "cannot keep" in " ".join(said.split()), said
    assert ended.returncode != 0 or command == "explain", said
    assert not (project.root / "ran").exists()


def test_a_rendered_launcher_holds_it(project: Project) -> None:
    """Another project's rendered files can neither be read nor written."""
    other = project.home / "other"
    other.mkdir()
    (other / "sandbox.yaml").write_text("schema: 1\nmethod: bwrap\nnetwork: {mode: none}\n")
    assert project.sandwright("run", "--", "true", cwd=other).returncode == 0
    project.policy.write_text(
        "schema: 1\nmethod: bwrap\nextends: []\n"
        "filesystem: {read: [/usr], write: [$PROJECT, ~/.cache, ~/.local/state]}\n"
        "environment: {pass: [PATH, HOME]}\n"
    )
    rendered = project.sandwright("render")
    assert rendered.returncode == 0, rendered.stderr
    script = (
        "find ~/.cache ~/.local/state -type f; for f in ~/.cache/sandwright ~/.cache/sandwright/sessions "
        "~/.local/state/sandwright/keys; do touch $f/x && echo wrote $f; mv $f ~/.cache/y && echo moved $f; "
        "done; echo x >~/.cache/free && echo free"
    )
    ended = subprocess.run(
        [project.root / ".sandbox/bwrap/launch", "sh", "-c", script],
        capture_output=True,
        timeout=WAIT,
        check=False,
        cwd=project.root,
        env=project.environ,
    )
    assert ended.stdout == b"free\n", ended


def test_what_a_bridge_of_another_project_works_with_is_hidden() -> None:
    """This includes its locks: a process that holds one prevents other bridges from starting."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="sandwright-test-") as made:
        home = Path(made, "home")
        project, other = Project(home / "p", home, Path(made, "run")), home / "other"
        for folder in (project.root, other, project.runtime):
            folder.mkdir(mode=0o700, parents=True)
        head = "schema: 1\nmethod: bwrap\n"
        project.policy.write_text(head)
        (other / "sandbox.yaml").write_text(head + "credentials: {shims: {sleep: {allow: ['*']}}}\n")
        words = [*SANDWRIGHT, "run", "--trust-policy", "--", "sleep", "60"]
        with subprocess.Popen(words, cwd=other, env=project.environ) as running:
            try:
                until(lambda: any(home.glob(".cache/sandwright/**/call-*")), "the bridge is not called")
                (home / ".cache/sandwright/seen").touch()
                script = "cd ~/.cache/sandwright; find . | grep -E '/(call-[^/]*|private|lock|shim|seen)$'"
                found = project.sandwright("run", "--", "sh", "-c", script).stdout.decode().split()
            finally:
                running.terminate()
    assert found == ["./seen"]


OUT = {
    "in the project": "build/sandbox",
    "in another grant": "../granted/out",
    "behind a link in the project": "link/out",
    "behind a link into the project": "{home}/into/out",
}


@pytest.mark.parametrize("out", OUT)
def test_nothing_is_rendered_where_the_sandbox_could_replace_it(project: Project, out: str) -> None:
    for name in ("granted", "apart"):
        (project.home / name).mkdir()
    (project.root / "link").symlink_to(project.home / "apart")
    (project.home / "into").symlink_to(project.root)
    project.policy.write_text("schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT, ~/granted]}\n")
    ended = project.sandwright("render", "--out", OUT[out].format(home=project.home))
    linked = out == "behind a link in the project"
    assert ended.returncode == (13 if linked else 64), ended
    said = b"link is a symbolic link to" if linked else b"can be written from inside a sandbox of bwrap"
    assert said in ended.stderr
    assert list(project.home.glob("**/launch")) == []
    assert project.sandwright("render", "--out", "../apart/out").returncode == 0
    assert project.sandwright("render").returncode == 0


def test_a_method_that_can_not_protect_what_is_rendered_has_it_elsewhere(project: Project) -> None:
    """The default directory is a protected name, which Landlock can't protect in a writable directory."""
    project.policy.write_text(LANDLOCK.replace(", WRITE", ""))
    ended = project.sandwright("render")
    assert b"can be written from inside a sandbox of landlock" in ended.stderr, ended
    assert not (project.root / ".sandbox/landlock/launch").exists()
    assert project.sandwright("render", "--out", "../out").returncode == 0


def _evil(project: Project, data: CacheEntry) -> CacheEntry:
    """The same entry, but it starts another program."""
    return touching(project, data, project.home / "pwned")


def test_a_forged_entry_is_none(project: Project) -> None:
    assert project.run("true").returncode == 0
    for mac in ("kept", "none", "zeros", "cut off"):
        path, data = entry(project)
        body = entry_bytes(_evil(project, data))
        kept = path.read_bytes().partition(b"\n")[0]
        first = {"kept": kept + b"\n", "none": b"", "zeros": b"0" * 64 + b"\n", "cut off": b"\n"}
        path.write_bytes(first[mac] + body)
        assert project.run("true").returncode == 0, mac
        assert not (project.home / "pwned").exists(), mac
        assert b"pwned" not in path.read_bytes(), mac


def test_all_of_an_entry_is_authenticated(project: Project) -> None:
    """The HMAC covers all fields, not only the command."""
    assert project.run("true").returncode == 0
    for field in ("terminal", "argv0_override", "terminal_argv", "loosened"):
        path, data = entry(project)
        own = sandbox(data)
        emptied = json.dumps(own | {field: type(own[field])()})
        changed = replace(data, sandbox=emptied, environment=(("A", "b"),))
        mac = path.read_bytes().partition(b"\n")[0]
        path.write_bytes(mac + b"\n" + entry_bytes(changed))
        assert project.run("true").returncode == 0, field
        assert sandbox(entry(project)[1])[field] == own[field]


def test_an_entry_of_another_request_is_none(project: Project) -> None:
    """The entry is authentic, but starts the command of another request."""
    project.environment["SANDWRIGHT_TRUST"] = "1"
    path, _ = entry(project, run=True)
    other = project.home / "other"
    other.mkdir()
    (other / "sandbox.yaml").write_text("schema: 1\nmethod: noop\nreason: a test\n")
    assert project.sandwright("run", "--", "true", cwd=other).returncode == 0
    (theirs,) = (each for each in entries(project) if each != path)
    path.write_bytes(theirs.read_bytes())
    ended = project.run("touch", str(project.home / "pwned"))
    assert not (project.home / "pwned").exists(), ended


@pytest.mark.parametrize("fault", ["open", "short", "link", "pipe"])
def test_a_key_that_others_could_know_is_not_used(project: Project, fault: str) -> None:
    """It is not used even for an entry that it authenticates; the next run makes a new one."""
    path, data = entry(project, run=True)
    key = project.home / ".local/state/sandwright/keys/render-cache"
    assert key.stat().st_mode & 0o777 == 0o600
    assert len(key.read_bytes()) == 32
    data = _evil(project, data)
    if fault == "short":
        key.write_bytes(b"k")
    write(project, path, data)
    if fault == "open":
        key.chmod(0o644)
    elif fault != "short":
        key.rename(project.home / "key")
    if fault == "link":
        key.symlink_to(project.home / "key")
    elif fault == "pipe":
        os.mkfifo(key, 0o600)
    assert project.run("touch", "ran").returncode == 0
    assert (project.root / "ran").exists()
    assert not (project.home / "pwned").exists()
    assert key.stat().st_mode & 0o777 == 0o600
    assert len(key.read_bytes()) == 32
    entry(project)


def test_with_its_key_an_entry_is_used(project: Project) -> None:
    """The control of the tests above: the program in their entries would start."""
    path, data = entry(project, run=True)
    write(project, path, _evil(project, data))
    project.run("true")
    assert (project.home / "pwned").exists()


def test_without_a_place_for_the_key_nothing_is_kept(project: Project) -> None:
    (project.home / ".local").write_text("a file")
    assert project.run("true").returncode == 0
    assert entries(project) == []
    assert list((project.home / ".cache/sandwright/sessions/rendered").iterdir())


def test_a_state_that_can_not_be_closed_is_an_error_with_its_path(project: Project) -> None:
    """Examples are a sandbox with a read-only home, and a container with a read-only root."""
    sessions = project.home / ".cache/sandwright/sessions"
    sessions.mkdir(parents=True)
    sessions.chmod(0o755)
    for words in (("doctor",), ("run", "--", "true")):
        ended = subprocess.run(
            ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *SANDWRIGHT, *words],
            capture_output=True,
            timeout=WAIT,
            check=False,
            cwd=project.root,
            env=project.environ,
        )
        assert ended.returncode != 0
        assert b"Traceback" not in ended.stderr
        assert f"cannot create {sessions}: Read-only file system".encode() in ended.stderr, ended.stderr


@pytest.mark.parametrize(
    ("variable", "spelled"),
    covering(
        ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"],
        ["link/../store", "link/../store/", "/store", "/outside//store", "there"],
    ),
)
def test_a_variable_in_any_spelling(project: Project, variable: str, spelled: str) -> None:
    """With `..`, the kernel leaves a link's target, not the link's directory."""
    outside = project.home / "outside"
    for folder in ("deep", "store"):
        (outside / folder).mkdir(mode=0o700, parents=True)
    (project.home / "link").symlink_to(outside / "deep")
    (project.home / "there").symlink_to(outside / "store")
    prefix = f"/{outside}" if spelled == "/store" else str(project.home)
    project.environment[variable] = f"{prefix}/{spelled}"
    own = outside / "store" / "sandwright"
    probe = f"ls {own}/sessions {own}/runs; touch {own}/planted {own}/sessions/planted && echo WROTE; true"
    project.policy.write_text(
        "schema: 1\nmethod: bwrap\nextends: []\n"
        f"filesystem: {{read: [/usr, /etc], write: [$PROJECT, {outside}]}}\n"
    )
    for _ in range(2):
        ended = project.run("sh", "-c", probe)
        assert (ended.returncode, ended.stdout.decode().replace(f"{own}/", "")) in (
            (0, ""), (0, "sessions:\n"), (0, "sessions:\n\nruns:\n"), (125, ""),
        ), ended.stderr  # fmt: skip
        assert not list(outside.rglob("planted"))


@pytest.mark.parametrize("name", ["run", "deep/run"])
def test_a_runtime_directory_that_is_not_there_yet(project: Project, name: str) -> None:
    """The next run would read its records there, and `cleanup` would remove the paths in them."""
    project.environment["XDG_RUNTIME_DIR"] = str(project.root / name)
    project.policy.write_text(
        "method: bwrap\nextends: []\nfilesystem: {read: [/usr, /etc], write: [$PROJECT]}\n"
    )
    probe = f"mkdir -p {name}/sandwright/scratch && echo MADE; mv {name} x && echo MOVED; true"
    for _ in range(2):
        ended = project.run("sh", "-c", probe)
        assert (ended.returncode, ended.stdout) == (0, b""), ended.stderr
