"""Rendering into a directory, checking it, and asking about it, as users call these commands."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright import HostFacts, Policy, process
from sandwright.cli import main
from sandwright.errors import UsageError
from sandwright.git import history
from sandwright.methods import METHODS
from sandwright.methods.bwrap.render import render_bwrap
from sandwright.policy.facts import HostEntry
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from support.standby import COMMAND as SANDWRIGHT

POLICY = "method: bwrap\nfilesystem: {read: [/usr], write: [$PROJECT]}\n"
"""The policy shows no sockets of this machine, which come and go while tests run."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "sandbox.yaml").write_text(POLICY)
    (tmp_path / "config").mkdir()
    return folder


def _run(*words: str, cwd: Path) -> process.Result:
    variables = {**os.environ, "XDG_CONFIG_HOME": str(cwd.parent / "config")}
    return process.run(*SANDWRIGHT, *words, cwd=cwd, env=variables, check=False, timeout=120)


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_what_is_rendered_is_current_until_the_policy_changes(project: Path) -> None:
    assert _run("render", cwd=project).status == 0
    bwrap = ("args", "launch", "launch-init", "launch.plan", "manifest.json", "mounts", "seccomp.bpf")
    assert _names(project / ".sandbox") == [".gitignore", *(f"bwrap/{name}" for name in bwrap)]
    assert os.access(project / ".sandbox/bwrap/launch", os.X_OK)
    assert _run("render", "--check", cwd=project).status == 0
    (project / "sandbox.yaml").write_text(POLICY + "process: {seccomp: strict}\n")
    stale = _run("render", "--check", cwd=project)
    assert stale.status == 12
    assert ".sandbox/bwrap/seccomp.bpf" in stale.stderr
    assert ".sandbox/bwrap/args" not in stale.stderr
    shown = _run("render", "--diff", cwd=project)
    assert " bytes before, " in shown.text.splitlines()[0]
    assert "+++ .sandbox/bwrap/launch.plan" in shown.text.splitlines()
    assert "+++ .sandbox/bwrap/args" not in shown.text.splitlines()
    assert _run("render", "--check", cwd=project).status == 12, "showing writes nothing"


def test_what_is_no_longer_rendered_is_found_and_removed(project: Path) -> None:
    docker, left = POLICY.replace("bwrap", "docker"), ".sandbox/docker/proxy/squid.conf"
    (project / "sandbox.yaml").write_text(docker + "network: {mode: proxy}\n")
    assert _run("render", cwd=project).status == 0
    assert (project / left).is_file()
    (project / "sandbox.yaml").write_text(docker)
    checked = _run("render", "--check", cwd=project)
    assert (checked.status, f"{left} (left over)" in checked.stderr) == (12, True)
    rendered = _run("render", cwd=project)
    assert f"{left}: removed, because the policy no longer renders it" in rendered.text
    assert not (project / left).exists()
    assert _run("render", "--check", cwd=project).status == 0


@pytest.mark.parametrize("claimed", [True, False], ids=["changed since", "never ours"])
def test_strange_files_are_found_and_left_alone(project: Path, claimed: bool) -> None:
    assert _run("render", cwd=project).status == 0
    folder = project / ".sandbox" / "bwrap"
    (folder / "notes").write_text("somebody's\n")
    if claimed:
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["artifacts"]["notes"] = "sha256:" + "0" * 64
        (folder / "manifest.json").write_text(json.dumps(manifest))
    checked = _run("render", "--check", cwd=project)
    assert (checked.status, ".sandbox/bwrap/notes (not ours)" in checked.stderr) == (12, True)
    rendered = _run("render", cwd=project)
    assert "was not written by this program, or was changed since, so it stays" in rendered.stderr
    assert (folder / "notes").read_text() == "somebody's\n"


@pytest.mark.parametrize("name", ["podman/launch", "launch", ".hidden"])
def test_what_no_method_of_the_policy_renders_to_is_found(project: Path, name: str) -> None:
    """Otherwise the check would pass a launcher that it compares with nothing."""
    assert _run("render", cwd=project).status == 0
    assert _run("render", "--check", cwd=project).status == 0
    (project / ".sandbox" / name).parent.mkdir(exist_ok=True)
    (project / ".sandbox" / name).write_text("#!/bin/sh\n")
    checked = _run("render", "--check", cwd=project)
    assert checked.status == 12
    assert f".sandbox/{name.split('/', maxsplit=1)[0]} (not ours)" in checked.stderr


def test_a_check_of_one_method_compares_the_others_that_are_there(project: Path) -> None:
    (project / "sandbox.yaml").write_text("schema: 1\nmethods: [bwrap, oci]\n")
    assert _run("render", "--method", "bwrap", cwd=project).status == 0
    assert _run("render", "--check", "--method", "bwrap", cwd=project).status == 0
    assert _run("render", "--method", "oci", cwd=project).status == 0
    (project / ".sandbox/oci/launch").write_text("#!/bin/sh\n")
    checked = _run("render", "--check", "--method", "bwrap", cwd=project)
    assert (checked.status, ".sandbox/oci/launch" in checked.stderr) == (12, True)


@pytest.mark.parametrize("kind", ["strange", "left over", "link"])
def test_names_of_strangers_begin_no_line(kind: str, project: Path) -> None:
    """CI obeys lines that begin with `::`, and a project's author names the files."""
    assert _run("render", cwd=project).status == 0
    folder, name = project / ".sandbox" / "bwrap", "a\n::warning::b"
    if kind == "link":
        (folder / name).symlink_to("x")
    else:
        (folder / name).write_text("x")
    if kind == "left over":
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["artifacts"][name] = f"sha256:{hashlib.sha256(b'x').hexdigest()}"
        (folder / "manifest.json").write_text(json.dumps(manifest))
    for words in (("render", "--check"), ("render",)):
        ended = _run(*words, cwd=project)
        shown = ended.stdout.decode() + ended.stderr
        assert r"a\n::warning::b" in shown
        assert not [line for line in shown.splitlines() if line.startswith("::")], shown


@pytest.mark.parametrize(
    ("suffix", "text"),
    [("sb", "(version 1)"), ("json", '{"defaultAction": "X"}'), ("yaml", "schema: 1\nbogus: 1\n")],
)
def test_lint_of_a_strangers_name_begins_no_line(suffix: str, text: str, project: Path) -> None:
    name = f"x\n::warning::y.{suffix}"
    (project / name).write_text(text)
    ended = _run("lint", name, cwd=project)
    shown = ended.stdout.decode() + ended.stderr
    assert rf"x\n::warning::y.{suffix}" in shown
    assert not [line for line in shown.splitlines() if line.startswith("::")], shown


def test_a_manifest_that_somebody_else_wrote_removes_nothing(project: Path) -> None:
    victim = project.parent / "victim"
    victim.write_text("precious\n")
    folder = project / ".sandbox" / "bwrap"
    folder.mkdir(parents=True)
    digest = f"sha256:{hashlib.sha256(b'precious').hexdigest()}"
    names = {"../../../victim": digest, str(victim): digest, "a/../../../../victim": digest}
    (folder / "manifest.json").write_text(json.dumps({"method": "bwrap", "artifacts": names}))
    assert _run("render", cwd=project).status == 0
    assert victim.read_text() == "precious\n"


@pytest.mark.parametrize("link", [".sandbox", ".sandbox/bwrap", ".sandbox/bwrap/launch"])
def test_nothing_is_written_through_a_link(project: Path, link: str) -> None:
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    place = project / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(elsewhere)
    refused = _run("render", cwd=project)
    assert refused.status == (4 if link == ".sandbox" else 64)
    said = ("symbolic link", "is no plain file", f"leads through the link {place}")
    assert any(each in refused.stderr for each in said)
    assert list(elsewhere.iterdir()) == []


def test_a_current_directory_that_is_gone(project: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    script = f'mkdir {gone} && cd {gone} && rmdir {gone} && exec "$@"'
    words = [*SANDWRIGHT, "render", "--policy", str(project / "sandbox.yaml"), "--out", str(tmp_path / "out")]
    result = process.run("/bin/sh", "-c", script, "sh", *words, check=False, timeout=120)
    assert (result.status, result.stderr) == (0, "")
    assert _names(tmp_path / "out" / "bwrap")
    relative = process.run("/bin/sh", "-c", script, "sh", *SANDWRIGHT, "render", check=False, timeout=120)
    assert relative.status == 13
    assert relative.stderr.endswith("the current directory was removed: change into one that is there\n")


@pytest.mark.parametrize("name", ["a b", "new\nline", "quote'\"", "-rf", "$HOME"])
def test_a_current_directory_with_a_hostile_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "sandbox.yaml").write_text(POLICY)
    (tmp_path / "config").mkdir()
    (folder / "invoke.py").write_text("raise SystemExit('somebody else ran')\n")
    (folder / "tasks.py").write_text("raise SystemExit('somebody else ran')\n")
    result = _run("render", cwd=folder)
    assert (result.status, result.stderr) == (0, "")
    assert _names(folder / ".sandbox" / "bwrap")


def test_seatbelt_for_a_linux_host_says_so(project: Path) -> None:
    words = ["render", "--method", "seatbelt"]
    rendered = _run(*words, cwd=project)
    assert rendered.status == 0
    assert "run `sandwright facts` on the Mac, and give its output with --facts" in rendered.stderr
    facts = HostFacts(os="darwin", home="/Users/u", project="/Users/u/p", platform="darwin/arm64")
    named = {path for path, _ in Policy.load(project / "sandbox.yaml").named_paths(facts)}
    facts = replace(facts, absent=tuple(sorted(named)), entries={"/": HostEntry("file")})
    (project.parent / "mac.json").write_text(facts.to_json())
    assert _run(*words, "--facts", "../mac.json", cwd=project).stderr == ""


def test_facts_are_recorded_and_rendered_elsewhere(project: Path) -> None:
    printed = _run("facts", cwd=project)
    facts = HostFacts.from_json(printed.stdout)
    assert (printed.status, facts.project, facts.kind(str(project))) == (0, str(project), "directory")
    (project.parent / "facts.json").write_bytes(printed.stdout)
    here, there = (
        _run("render", "--out", f"../{out}", *more, cwd=project)
        for out, more in (("here", ()), ("there", ("--facts", "../facts.json")))
    )
    assert (here.status, there.status) == (0, 0)
    first, second = (project.parent / out / "bwrap" / "args" for out in ("here", "there"))
    assert first.read_bytes() == second.read_bytes()
    (project.parent / "facts.json").write_text('{"schema": 2}')
    wrong = _run("render", "--facts", "../facts.json", cwd=project)
    assert (wrong.status, "../facts.json: home: is required" in wrong.stderr) == (2, True)


def test_facts_that_lack_a_path_are_refused(project: Path) -> None:
    """Otherwise the artifacts would lose a grant or a restriction without a message."""
    recorded = project.parent / "facts.json"
    recorded.write_bytes(_run("facts", cwd=project).stdout)
    given = ("--facts", str(recorded))
    assert _run("render", *given, cwd=project).status == 0
    assert _run("lint", "sandbox.yaml", *given, cwd=project).status == 0
    tasks = (("render",), ("render", "--check"), ("render", "--diff"), ("lint", "sandbox.yaml"))
    for field in ("read", "deny"):
        (project / "sandbox.yaml").write_text(f"method: bwrap\nfilesystem: {{{field}: [/opt]}}\n")
        for task in (*tasks, ("explain", "read", "/usr")):
            refused = _run(*task, *given, cwd=project)
            assert refused.status == 2, (task, refused.stderr)
            assert f"filesystem.{field}[0]: the facts lack /opt: record them again" in refused.stderr
    recorded.write_bytes(_run("facts", cwd=project).stdout)
    assert _run("render", *given, cwd=project).status == 0


def test_a_grant_of_what_is_not_there_is_told(project: Path) -> None:
    grants = "filesystem: {read: [/usr, /nowhere], write: [$PROJECT, $PROJECT/new]}"
    (project / "sandbox.yaml").write_text(f"schema: 1\nmethod: bwrap\nextends: []\n{grants}\n")
    said = "/nowhere grants nothing, as there is no /nowhere"
    rendered, linted = _run("render", cwd=project), _run("lint", "sandbox.yaml", cwd=project)
    assert said in rendered.stderr
    assert "/new " not in rendered.stderr
    assert said in linted.text


VOID = [
    pytest.param(
        "write: [$PROJECT, $PROJECT/.codex]",
        "write $PROJECT/.codex allows no writing: protect .codex [",
        "presets/default.yaml",
        "unprotect: [{path: $PROJECT/.codex, reason: …}]",
        id="a protected name",
    ),
    pytest.param(
        "read: [/, ~/.ssh]",
        "read ~/.ssh grants nothing: deny ~/.ssh [",
        "presets/default.yaml",
        "unprotect: [{path: ~/.ssh, reason: …}]",
        id="a preset's denial",
    ),
    pytest.param(
        "write: [$PROJECT, $PROJECT/a]\n  readonly: [$PROJECT/a]",
        "write $PROJECT/a allows no writing: readonly $PROJECT/a [",
        "sandbox.yaml:5:",
        "remove it from filesystem.readonly",
        id="the same file",
    ),
    pytest.param(
        "write: [$PROJECT, $PROJECT/.sandbox]",
        "write $PROJECT/.sandbox allows no writing: protect .sandbox [",
        "presets/built-in.yaml",
        "nothing changes that",
        id="the sandbox's own",
    ),
]


@pytest.mark.parametrize(("grants", "said", "line", "key"), VOID)
def test_a_void_grant_is_told_with_the_line_that_wins_and_the_key(
    project: Path, grants: str, said: str, line: str, key: str
) -> None:
    for name in (".codex", "a", ".sandbox"):
        (project / name).mkdir()
    (project / "sandbox.yaml").write_text(f"schema: 1\nmethod: bwrap\nfilesystem:\n  {grants}\n")
    subject = said.split()[1].replace("$PROJECT/", "")
    answers = (
        _run("render", cwd=project).stderr,
        _run("lint", "sandbox.yaml", cwd=project).text,
        _run("explain", said.split(maxsplit=1)[0], subject, cwd=project).text,
    )
    for answer in answers:
        told = next((each for each in answer.splitlines() if key in each), "")
        assert line in told, answer
        assert said.partition(" ")[2].partition(" ")[2] in told


def test_the_key_opens_what_was_void(project: Path) -> None:
    (project / ".codex").mkdir()
    grants = "write: [$PROJECT, $PROJECT/.codex]\n  unprotect: [{path: $PROJECT/.codex, reason: x}]"
    (project / "sandbox.yaml").write_text(f"schema: 1\nmethod: bwrap\nfilesystem:\n  {grants}\n")
    assert "nothing" not in _run("lint", "sandbox.yaml", cwd=project).text.replace("nothing found", "")
    assert "allowed" in _run("explain", "write", ".codex/x", cwd=project).text.splitlines()[0]


def test_explain_shows_the_methods_of_the_policy_or_all(project: Path) -> None:
    own = _run("explain", "write", "~/.ssh/id_rsa", cwd=project)
    assert own.status == 0
    assert "bwrap" in own.text
    assert "seatbelt" not in own.text
    both = _run("explain", "write", "~/.ssh/id_rsa", "--method", "bwrap,seatbelt", cwd=project)
    assert "bwrap" in both.text
    assert "seatbelt" in both.text
    assert "names nothing" in _run("explain", "write", "x", "--method", ",", cwd=project).stderr
    answer = _run("explain", "write", "~/.ssh/id_rsa", "--method", "all", cwd=project)
    assert answer.status == 0
    lines = answer.text.splitlines()
    assert lines[0].startswith("write ")
    assert "denied by deny ~/.ssh" in lines[0]
    rows = {words[0]: words for words in map(str.split, lines) if words}
    assert rows["seatbelt"][1:3] == ["deny", "agrees"]
    assert rows["bwrap"][1:3] == ["deny", "agrees"]
    assert rows["user"][1:3] == ["deny", "agrees"]
    assert rows["alcless"][1:4] == ["–", "not", "asked"]


def test_explain_fails_when_an_artifact_disagrees(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def opened(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
        before = render_bwrap(policy)
        return tuple(replace(each, content=each.content.replace(b"--unshare-net\0", b"")) for each in before)

    monkeypatch.setitem(METHODS["bwrap"].__dict__, "make_artifacts", opened)
    monkeypatch.chdir(project)
    words = ["explain", "connect", "example.com:443", "--method", "bwrap", "--method", "seatbelt"]
    shown, error = _here(words, monkeypatch, capsys)
    assert error.strip() == "sandwright: the artifacts decide otherwise than the policy: bwrap"
    assert "DISAGREES" in shown
    data = json.loads(_here([*words, "--json"], monkeypatch, capsys)[0])
    assert (data["schema"], data["decision"], data["agree"]) == (1, "deny", False)
    assert [(row["method"], row["decision"], row["status"]) for row in data["methods"]] == [
        ("bwrap", "allow", "disagrees"),
        ("seatbelt", "deny", "agrees"),
    ]


def _here(
    words: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[str, str]:
    """Run in this process, in which a test can tamper with a renderer; the command finds a fault."""
    monkeypatch.setattr(sys, "argv", ["sandwright", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 12
    told = capsys.readouterr()
    return told.out, told.err


def test_explain_takes_the_arguments_of_a_call(project: Path) -> None:
    words = [
        "explain",
        "syscall",
        "clone",
        "0x10000000",
        "--method",
        "bwrap",
        "--arch",
        "amd64",
        "--arch",
        "arm64",
        "--json",
    ]
    data = json.loads(_run(*words, cwd=project).stdout)
    assert [(row["arch"], row["decision"]) for row in data["methods"]] == [
        ("amd64", "deny"),
        ("arm64", "deny"),
    ]
    assert data["subject"] == "clone 0x10000000"
    wrong = _run("explain", "syscall", "clone", "x", cwd=project)
    assert (wrong.status, "x is not a number" in wrong.stderr) == (64, True)


@pytest.mark.needs("git")
def test_lint_says_what_is_denied_though_git_tracks_it(project: Path) -> None:
    for name in ("tracked", "own"):
        (project / name).mkdir()
        (project / name / ".env").touch()
    process.run("git", "init", "-q", cwd=project)
    process.run("git", "add", "tracked", cwd=project)
    denied = "[$PROJECT/own, $PROJECT/tracked/.env, $PROJECT/tracked]"
    text = f"method: bwrap\nfilesystem:\n  write: [$PROJECT]\n  deny: {denied}\n"
    (project / "sandbox.yaml").write_text(text)
    said = _run("lint", "sandbox.yaml", cwd=project)
    assert said.status == 0
    places = [line.partition(": Git tracks ")[::2] for line in said.text.splitlines()]
    assert [(place.rpartition(": ")[2], what.partition(",")[0]) for place, what in places] == [
        ("filesystem.deny[2]", "$PROJECT/tracked"),
        ("filesystem.deny[1]", "$PROJECT/tracked/.env"),
    ]


def test_lint_names_what_a_method_can_not_enforce(project: Path) -> None:
    rules = "filesystem: {read: [/usr], write: [$PROJECT], deny: [$PROJECT/.env]}"
    (project / ".env").touch()
    (project / "sandbox.yaml").write_text(f"schema: 1\nmethods: [bwrap, landlock]\n{rules}\n")
    said = _run("lint", cwd=project)
    assert said.status == 12
    assert (
        "landlock cannot enforce filesystem.deny-inside (deny $PROJECT/.env, project sandbox.yaml:3:"
        in said.text
    )
    assert "bwrap cannot" not in said.text
    refused = _run("render", "--method", "landlock", "--check", cwd=project).stderr.removeprefix(
        "sandwright: "
    )
    assert set(refused.splitlines()) == set(said.text.splitlines())


def test_lint_finds_the_projects_policy(project: Path) -> None:
    (project / "below").mkdir()
    said = _run("lint", cwd=project / "below")
    assert (said.status, said.text.strip()) == (0, f"{project}/sandbox.yaml: nothing found")
    (project / "sandbox.yaml").unlink()
    assert _run("lint", cwd=project / "below").status == 64


def test_explain_asks_a_preset_where_there_is_no_policy(project: Path) -> None:
    (project / "sandbox.yaml").unlink()
    refused = _run("explain", "write", ".claude/x", cwd=project)
    assert (refused.status, "cannot read the project policy" in refused.stderr) == (64, True)
    asked = {
        name: _run("explain", "connect", "api.anthropic.com:443", "--preset", name, cwd=project)
        for name in ("strict", "agent-claude")
    }
    assert "denied" in asked["strict"].text.splitlines()[0], asked["strict"].stderr
    assert "allowed" in asked["agent-claude"].text.splitlines()[0], asked["agent-claude"].stderr


@pytest.mark.needs("bwrap", "cc")
def test_verify_proves_a_preset_where_there_is_no_policy(project: Path, tmp_path: Path) -> None:
    (project / "sandbox.yaml").unlink()
    refused = _run("verify", cwd=project)
    assert (refused.status, "cannot read the project policy" in refused.stderr) == (64, True)
    page = tmp_path / "page.html"
    proved = _run("verify", "--preset", "default", "--html", str(page), cwd=project)
    assert "preset default is proved for bwrap" in proved.text, proved.text + proved.stderr
    assert proved.status == 0
    assert "preset=default" in page.read_text()
    assert list(project.iterdir()) == []


@pytest.mark.needs("git")
@pytest.mark.parametrize("name", ["config", "packed-refs", "refs/heads/x"])
def test_lint_does_not_wait_at_a_pipe_in_a_repository(project: Path, name: str) -> None:
    """Git would wait there until a process writes."""
    process.run("git", "init", "-q", cwd=project)
    (project / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(project / ".git" / name)
    done = process.run(*SANDWRIGHT, "lint", cwd=project, timeout=25, check=False)
    assert f".git/{name} is not a regular file: Git would wait for it" in done.stderr + done.text


@pytest.mark.needs("git")
def test_the_history_behind_a_pipe_is_not_asked_for(tmp_path: Path) -> None:
    process.run("git", "init", "-q", cwd=tmp_path)
    (tmp_path / ".git/config").unlink()
    os.mkfifo(tmp_path / ".git/config")
    assert history.head_commit(tmp_path) == ""
    with pytest.raises(UsageError):
        history.top_directory(tmp_path)
