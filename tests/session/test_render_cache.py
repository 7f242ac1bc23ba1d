"""The render cache: an entry is used, and is stale as soon as one of its inputs changes.

Tests of session/prepare.py: the questions, and an outdated `.sandbox` (_check_rendered).
Tests of session/render_cache.py.
Tests of session/request.py.
Tests of session/run.py.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandwright import inputs, process, user_dirs
from sandwright.inputs import LiveHost, answer
from sandwright.questions import KINDS
from sandwright.render.artifact import Artifact
from sandwright.session import render_cache, request
from sandwright.session.entry import parse_entry
from sandwright.session.render_store import store
from sandwright.session.request import RunRequest
from sandwright.signalling import BOOT
from session.conftest import POLICY, WAIT, Project
from support.fronts import installed
from support.thorough import representative

pytestmark = pytest.mark.needs("bwrap")


def _told(
    project: Project, *words: str, options: tuple[str, ...] = (), **more: Any
) -> tuple[dict[str, Any], Any]:
    """The event of a run, and the run."""
    file = project.home / "events"
    ended = project.run(*words, options=("--telemetry", str(file), *options), **more)
    lines = file.read_text().splitlines() if file.exists() else ["{}"]
    return json.loads(lines[-1]), ended


def _kept(project: Project, *words: str) -> bool:
    """Whether the rendering is used again. Other processes of this machine may just have opened a socket."""
    return any(_told(project, *words)[0]["rendered"] == "before" for _ in range(4))


def _tamper(name: str) -> Callable[[Project], None]:
    def change(project: Project) -> None:
        for file in (project.home / ".cache/sandwright/sessions/rendered").glob(f"*/{name}"):
            file.write_bytes(b"#!/bin/sh\nexec cat secrets/key\n")

    return change


CHANGES: dict[str, Callable[[Project], object]] = {
    "policy": lambda p: p.policy.write_text(POLICY + "network: {mode: host}\n"),
    "policy of the same length": lambda p: (
        p.policy.with_name("hidden!").mkdir(),  # type: ignore[func-returns-value]
        p.policy.write_text(POLICY.replace("secrets", "hidden!")),
    ),
    "user's layer": lambda p: _write(
        p.home / ".config/sandwright/policy.yaml", "environment: {set: {A: b}}\n"
    ),
    "a protected file appears": lambda p: (p.root / ".envrc").touch(),
    "a repository goes": lambda p: shutil.rmtree(p.root / ".git"),
    "a repository inside": lambda p: _write(p.root / ".git/modules/m/HEAD", ""),
    "a secret of the home": lambda p: _write(p.home / ".ssh/id", ""),
    "another home": lambda p: p.environment.update(HOME=str(_new(p.home / "second"))),
    "another runtime directory": lambda p: p.environment.update(XDG_RUNTIME_DIR=str(_new(p.home / "run"))),
    "a cloud's credentials": lambda p: p.environment.update(
        GOOGLE_APPLICATION_CREDENTIALS=str(_new(p.home / "key"))
    ),
    "a program": lambda p: p.environment.update(PATH=f"{_own_bwrap(p)}:{os.environ['PATH']}"),
    "the launcher": _tamper("launch"),
    "the arguments": _tamper("args"),
    "the filter": _tamper("seccomp.bpf"),
}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _new(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path


def _own_bwrap(project: Project) -> Path:
    folder = project.home / "bin"
    folder.mkdir()
    shutil.copy(str(shutil.which("bwrap")), folder / "bwrap")
    return folder


@pytest.mark.parametrize(
    "change",
    representative(
        CHANGES,
        *("policy of the same length", "the filter"),
    ),
)
def test_rendered_anew(project: Project, change: str) -> None:
    """test_front.py tries each change with the native command, which asks first."""
    assert _told(project, "true")[0]["rendered"] == "now"
    assert _kept(project, "true")
    CHANGES[change](project)
    event, ended = _told(project, "sh", "-c", "cat secrets/key other/key; echo ran")
    assert event["rendered"] == "now"
    assert b"ran\n" in ended.stdout
    assert (b"content" in ended.stdout) == ("hidden!" in project.policy.read_text())
    assert _kept(project, "true")


def test_few_questions_are_asked(tmp_path: Path) -> None:
    """The policy is the preset `default`, in this repository."""
    repository = Path(__file__).parents[2]
    environ = {
        **os.environ,
        "HOME": str(_new(tmp_path / "home")),
        "XDG_RUNTIME_DIR": str(_new(tmp_path / "run")),
    }
    words = [str(installed(tmp_path / "bin")), "run", "--", "true"]
    environ = {name: value for name, value in environ.items() if name != "XDG_CACHE_HOME"}
    subprocess.run(words, check=True, cwd=repository, env=environ, timeout=WAIT)
    (kept,) = (tmp_path / "home/.cache/sandwright/sessions").glob("*.entry")
    recording = parse_entry(kept.read_bytes().partition(b"\n")[2]).recording()
    others = user_dirs.visible_scratch()  # daemons of other tests have their mounts there
    questions = [question for question, _ in recording if others not in str(question)]
    assert 100 < len(questions) <= 185


def test_another_boot_renders_anew(project: Project) -> None:
    """A record with the id of an earlier boot would belong to an ended session, which others clean up."""
    assert _kept(project, "true")
    (kept,) = (project.home / ".cache/sandwright/sessions").glob("*.entry")
    recording = parse_entry(kept.read_bytes().partition(b"\n")[2]).recording()
    asked = {question: found for question, found in recording if question[:2] == ("content", BOOT)}
    assert list(asked.values()) == [answer(("content", BOOT))]


def test_a_file_among_modules_becomes_a_repository(project: Project) -> None:
    """The names in the directory stay the same."""
    module = project.root / ".git/modules/m"
    _write(module, "")
    assert _told(project, "true")[0]["rendered"] == "now"
    assert _kept(project, "true")
    module.unlink()
    for name in ("HEAD", "config"):
        _write(module / name, "")
    event, ended = _told(project, "sh", "-c", "echo x >.git/modules/m/config")
    assert (event["rendered"], ended.returncode != 0) == ("now", True), ended
    assert (module / "config").read_text() == ""


def test_what_decides_nothing(project: Project) -> None:
    assert _told(project, "true")[0]["rendered"] == "now"
    (project.root / "src").mkdir()
    (project.root / "src" / "new").write_text("x")
    (project.root / ".git" / "index").write_text("x")
    project.environment["SOMETHING"] = "else"
    assert _kept(project, "touch", "made")


def test_a_variable_of_the_policy(project: Project) -> None:
    project.environment["DATA"] = str(project.home / "one")
    for name in ("one", "two"):
        (project.home / name).mkdir()
    project.policy.write_text(POLICY.replace("[$PROJECT]", "[$PROJECT, '${DATA}']"))
    assert project.run("touch", f"{project.home}/one/x").returncode == 0
    project.environment["DATA"] = str(project.home / "two")
    assert project.run("touch", f"{project.home}/one/y").returncode != 0
    assert project.run("touch", f"{project.home}/two/y").returncode == 0


def test_a_socket_appears(project: Project) -> None:
    """A server listens at a path that the sandbox can read; a policy with a list of sockets hides it."""
    assert _told(project, "true")[0]["rendered"] == "now"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(project.root / "s"))
        listening.listen()
        assert _told(project, "true")[0]["rendered"] == "now"


def test_artifacts_of_the_project(project: Project) -> None:
    """A run starts none of them, reports them as outdated, and is refused only if they were required."""
    no_artifacts = project.run("true", options=("--rendered",))
    assert no_artifacts.returncode == 125
    assert b"--rendered: no " in no_artifacts.stderr
    assert project.sandwright("render").returncode == 0
    assert project.run("true", options=("--rendered",)).returncode == 0
    args = project.root / ".sandbox" / "bwrap" / "args"
    args.write_bytes(args.read_bytes().replace(b"--cap-drop\0ALL\0", b""))
    for options, environment in (("--rendered",), {}), ((), {"CI": "true"}):
        project.environment.update(environment)
        ended = project.run("touch", "ran", options=options)
        assert ended.returncode == 125
        assert b".sandbox/bwrap: args: not what the policy renders to now" in ended.stderr
        assert not (project.root / "ran").exists()
    del project.environment["CI"]
    ended = project.run("sh", "-c", "grep CapBnd /proc/self/status")
    assert ended.returncode == 0
    assert b".sandbox/bwrap is out of date and not used" in ended.stderr
    assert ended.stdout.split() == [b"CapBnd:", b"0" * 16], "the policy's sandbox, and not the changed one"
    assert b"out of date" not in project.run("true").stderr, "said once"
    assert project.sandwright("render").returncode == 0
    assert project.run("true", options=("--rendered",)).returncode == 0
    project.policy.write_text(POLICY + "network: {mode: host}\n")
    assert b"out of date" in project.run("true").stderr


def test_a_pipe_among_a_strangers_artifacts_is_not_waited_for(project: Project) -> None:
    folder = project.root / ".sandbox" / "bwrap"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    os.mkfifo(folder / "args")
    ended = project.run("true", options=("--rendered",))
    assert ended.returncode == 125
    assert b"args" in ended.stderr, ended.stderr
    assert b"not what the policy renders to now" in ended.stderr


def test_from_inside_nothing_of_it_can_be_written(project: Project) -> None:
    """This holds even if the policy makes the whole home writable, in which the entries lie."""
    project.policy.write_text("schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT, ~/.cache]}\n")
    programs = project.home / ".cache/sandwright/programs"
    programs.mkdir(parents=True)
    (programs / "here").write_text("a program of ours that runs outside")
    script = (
        "for f in $(find ~/.cache/sandwright -type f); do (echo x >$f) 2>/dev/null && echo wrote $f; done; "
        "mv ~/.cache/sandwright ~/.cache/moved && echo moved; mv ~/.cache ~/.moved && echo moved; "
        "echo x >~/.cache/free && echo free; (echo x >sandbox.yaml) && echo wrote"
    )
    ended = project.run("sh", "-c", script)
    assert ended.stdout == b"free\n", ended.stderr
    assert project.run("sh", "-c", script).stdout == b"free\n"


def test_a_full_disk(project: Project) -> None:
    cache = project.home / ".cache"
    cache.mkdir()
    if os.getuid() != 0:
        pytest.skip("mounts a small tmpfs")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=6", "tmpfs", cache], check=True)
    try:
        ended = project.run("touch", "ran")
    finally:
        subprocess.run(["umount", cache], check=True)
    assert ended.returncode == 125
    assert b"No space left on device" in ended.stderr
    assert not (project.root / "ran").exists()


def test_a_read_only_project(project: Project) -> None:
    if os.getuid() != 0:
        pytest.skip("mounts it")
    shutil.rmtree(project.root / ".git")
    reading = project.root / "reading.yaml"
    reading.write_text(POLICY.replace("write:", "readonly:"))
    subprocess.run(["mount", "--bind", project.root, project.root], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", project.root], check=True)
    try:
        ended = project.run("true")
        allowed = project.run(
            "sh", "-c", "cat sandbox.yaml >/dev/null && echo read", options=("--policy", str(reading))
        )
    finally:
        subprocess.run(["umount", project.root], check=True)
    assert ended.returncode == 125
    assert f"cannot write {project.root}, which the policy makes writable" in ended.stderr.decode()
    assert allowed.stdout == b"read\n", allowed.stderr


def test_a_cache_of_somebody_else_is_not_used(project: Project) -> None:
    if os.getuid() != 0:
        pytest.skip("gives a directory away")
    cache = project.home / ".cache" / "sandwright" / "sessions"
    cache.mkdir(parents=True)
    os.chown(cache, 65534, 65534)
    ended = project.run("true")
    assert ended.returncode == 125
    assert b"is not a directory of this user" in ended.stderr


@pytest.mark.parametrize("kind", sorted({*KINDS, "entries"}))
def test_every_question_can_be_asked_of_anything(kind: str, tmp_path: Path) -> None:
    """No path causes an error: unreadable ones have an answer as well, and JSON keeps it unchanged."""
    os.mkfifo(tmp_path / "pipe")
    for subject in (
        "",
        "/",
        str(tmp_path / "pipe"),
        str(tmp_path / "missing"),
        "a\udcff",
        "/dev/null",
        "HOME",
    ):
        asking = LiveHost()
        if kind == "nested" and subject in ("", "/"):  # no project, and too large for a complete search
            continue
        asking.ask_all([(kind, subject, "name") if kind == "entries" else (kind, subject)])
        assert (
            kind in ("sockets", "tree") or inputs.changed(json.loads(json.dumps(asking.recording()))) is None
        )


@pytest.mark.parametrize("question", [("nonsense", "x"), ("stamp",), ("stamp", "/", "/"), ()])
def test_an_unknown_question_counts_as_changed(question: tuple[str, ...]) -> None:
    assert inputs.changed([(question, ())]) == question


def test_another_copy_of_the_program_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = RunRequest(["true"]).identity()
    assert RunRequest(["true"]).identity() == ours
    monkeypatch.setattr(request, "__file__", "/elsewhere/sandwright/session/request.py")
    assert RunRequest(["true"]).identity() != ours


def test_stored_by_many_at_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process finds the files of the first, at any stage of their creation."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.home / "cache"))
    user_dirs.private(user_dirs.cache())
    made = [Artifact("launch", b"x", "starts it", executable=True)]
    first = store(made)
    monkeypatch.setattr(Path, "exists", lambda _: False)  # as the second process saw it
    assert store(made) == first
    assert [path.name for path in first.parent.iterdir()] == [first.name]
    assert (first / "launch").read_bytes() == b"x"


@pytest.mark.needs("squid", "setpriv")
def test_a_proxy_starts_from_what_was_planned(project: Project) -> None:
    """Nothing is rendered, and the proxy decides by the policy."""
    project.policy.write_text(f"{POLICY}network: {{mode: proxy, allow: [web.example]}}\n")
    assert _kept(project, "true")
    code = (
        "import sys\nfrom sandwright.session.request import RunRequest\n"
        "from sandwright.session.run import run\n"
        "status = run(RunRequest(sys.argv[1:]))\n"
        "print(status, sorted({'jinja2', 'sandwright.policy.resolve'} & sys.modules.keys()))"
    )
    request = r"CONNECT bad.example:443 HTTP/1.1\r\nHost: bad.example\r\n\r\n"
    asked = f"exec 3<>/dev/tcp/127.0.0.1/3128; printf '{request}' >&3; head -n 1 <&3 | tr -d '\\r'"
    words = [sys.executable, "-P", "-c", code, "bash", "-c", asked]
    for _ in range(3):  # the caller is another program than the command, whose sandbox is rendered for it
        ended = subprocess.run(
            words,
            cwd=project.root,
            env=project.environ,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
    assert ended.stdout.splitlines() == ["HTTP/1.1 403 Forbidden", "0 []"], ended.stderr


@pytest.mark.needs("squid", "setpriv")
def test_another_squid_is_planned_anew(project: Project, tmp_path: Path) -> None:
    project.policy.write_text(f"{POLICY}network: {{mode: proxy, allow: [web.example]}}\n")
    assert _kept(project, "true")
    own = tmp_path / "squids" / "squid"
    own.parent.mkdir()
    shutil.copy(process.which("squid"), own)
    project.environment["PATH"] = f"{own.parent}:{os.environ['PATH']}"
    assert _told(project, "true")[0]["rendered"] == "now"
    assert _kept(project, "true")
    own.unlink()
    shutil.copy(process.which("squid"), own)
    os.utime(own, (1, 1))
    assert _told(project, "true")[0]["rendered"] == "now"


_VANISHING = """
import os
from sandwright.cli import main
from sandwright.session import prepare as preparing

prepare = preparing.prepare

def prepare_and_remove(*given):
    prepared = prepare(*given)
    if os.path.lexists({path!r}):
        os.unlink({path!r})
    return prepared

preparing.prepare = prepare_and_remove
main()
"""
"""The program, with a second one beside it whose socket disappears after rendering."""


def test_a_socket_that_goes_after_it_was_rendered_is_not_missed(project: Project) -> None:
    granted, shown = project.root / "granted", project.root / "shown"
    project.policy.write_text(f"{POLICY}network: {{unix_sockets: [$PROJECT/granted]}}\n")
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(str(granted))
        other.bind(str(shown))
        for each in (one, other):
            each.listen()
        ended = subprocess.run(
            [sys.executable, "-P", "-c", _VANISHING.format(path=str(shown)), "run", "--", "ls"],
            capture_output=True,
            timeout=WAIT,
            check=False,
            cwd=project.root,
            env=project.environ,
        )
    assert not shown.exists()
    assert ended.returncode == 0, ended.stderr
    assert b"granted" in ended.stdout.split()
    assert b"shown" not in ended.stdout.split()


def test_a_line_break_does_not_end_a_part_of_the_identity() -> None:
    """Otherwise, a directory with one in its name could share the entry of another request."""
    split = [["a\nb", "c"], ["a", "b\nc"], ["a", "b", "c"], ["a\nb\nc"], ["a", "b", "c", ""]]
    assert len({render_cache.cache_path(each) for each in split}) == len(split)
