"""Aider writes a committer into .git/config if Git has no identity: a message says so before it fails."""

from __future__ import annotations

import os
import shutil
import socket as sockets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.inputs import LiveHost
from sandwright.policy.collect import collect_facts
from sandwright.session import committer
from session.conftest import Project

pytestmark = pytest.mark.needs("bwrap", "git")

SAID = b"Git knows no user.name and user.email inside: aider wants to write them into .git/config"
OPTIONS = ("--preset", "agent-aider", "--method", "bwrap", "--set", "network.mode=none")
NAMED = "[user]\n\tname = A Person\n\temail = person@example.org\n"


@contextmanager
def listening(path: Path) -> Iterator[None]:
    """A socket with an agent's name."""
    with sockets.socket(sockets.AF_UNIX) as made:
        made.bind(str(path))
        made.listen()
        yield


@pytest.fixture
def person() -> Iterator[Project]:
    """A repository in the home of a user without a Git identity, and a program that behaves like aider."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="sandwright-test-") as made:
        project = Project(Path(made, "home", "p"), Path(made, "home"), Path(made, "run"))
        for folder in (project.root, project.runtime, Path(made, "home/bin")):
            folder.mkdir(mode=0o700, parents=True)
        program = Path(made, "home/bin/aider")
        program.write_text("#!/bin/sh\ngit config user.name >/dev/null || git config user.name 'Your Name'\n")
        program.chmod(0o755)
        project.environment["PATH"] = f"{program.parent}:{os.environ['PATH']}"
        process.run("git", "init", "-q", project.root)
        yield project


def test_who_commits_is_asked_for_before_aider_fails(person: Project) -> None:
    done = person.run("aider", options=OPTIONS)
    assert done.returncode != 0
    assert SAID in done.stderr
    assert done.stderr.index(SAID) < done.stderr.index(b"could not ")
    assert b"first, outside: git config --global user.name NAME; git config" in done.stderr


@pytest.mark.parametrize("file", [".gitconfig", ".config/git/config", "p/.git/config", "included"])
def test_whoever_is_known_is_told_of_nothing(person: Project, file: str) -> None:
    """The note of an earlier run, which is stored with the rendering, disappears, too."""
    assert SAID in person.run("aider", options=OPTIONS).stderr
    path = person.home / (".gitconfig" if file == "included" else file)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else ""
    path.write_text(text + (f"[include]\n\tpath = {person.home}/other\n" if file == "included" else NAMED))
    (person.home / "other").write_text(NAMED)
    done = person.run("aider", options=OPTIONS)
    assert (done.returncode, SAID in done.stderr) == (0, False), done.stderr


def test_a_name_without_an_address_is_not_enough(person: Project) -> None:
    (person.home / ".gitconfig").write_text("[user]\n\tname = A Person\n")
    assert SAID in person.run("aider", options=OPTIONS).stderr


@pytest.mark.parametrize("shown", [True, False])
def test_in_an_image_the_file_has_to_be_shown(person: Project, shown: bool) -> None:
    (person.home / ".gitconfig").write_text(NAMED)
    read = '["...", ~/.gitconfig]' if shown else '["..."]'
    policy = Policy.from_text(
        f"schema: 1\nimage: dev\nextends: [agent-aider]\nfilesystem: {{read: {read}}}\n"
    )
    resolved = policy.resolve(collect_facts(policy, project=person.root, environ={"HOME": str(person.home)}))
    said = committer.unknown("aider", resolved, LiveHost(), own_root=True)
    way = '; and show it inside: filesystem.read: ["...", ~/.gitconfig]'
    assert (said == "") if shown else said.endswith(way)
    assert committer.unknown("aider", resolved, LiveHost(), own_root=False) == ""


def test_others_are_told_of_nothing(person: Project) -> None:
    """Their commits fail with Git's own message; without a repository there is nothing to commit."""
    assert SAID not in person.run("git", "status", options=OPTIONS).stderr
    process.run("rm", "-r", person.root / ".git")
    assert SAID not in person.run("aider", options=OPTIONS).stderr


@pytest.mark.needs("gpg")
@pytest.mark.parametrize("signs", [True, False])
def test_a_commit_that_cannot_be_signed_is_explained(project: Project, signs: bool) -> None:
    """The real gpg has no key here, just as inside if ~/.gnupg is denied."""
    shutil.rmtree(project.root / ".git")
    process.run("git", "init", "-q", project.root)
    with (project.root / ".git" / "config").open("a") as file:
        file.write(f"{NAMED}[commit]\n\tgpgsign = {str(signs).lower()}\n")
    project.run("true")
    ended = project.run("git", "commit", "-q", "--allow-empty", "-m", "x")
    said = b"Git signs commits here (openpgp), and the key cannot be reached inside" in ended.stderr
    assert (ended.returncode != 0, said) == (signs, signs), ended.stderr
    assert (b"gpg failed to sign" in ended.stderr) is signs


def test_an_agent_that_is_open_signs(project: Project) -> None:
    socket = project.home / "S.gpg-agent"
    with listening(socket):
        (project.root / ".git" / "config").write_text(f"{NAMED}[commit]\n\tgpgsign\n")
        options = ("--set", f"network.unix_sockets=[{socket}]")
        assert b"Git signs" in project.run("true").stderr
        assert b"Git signs" not in project.run("true", options=options).stderr


def test_a_listed_key_signs(project: Project) -> None:
    """The control: a key of the other kind does not, and the note names the field."""
    (project.root / ".git" / "config").write_text(
        f"{NAMED}\tsigningkey = ~/.ssh/id.pub\n[commit]\n\tgpgsign\n[gpg]\n\tformat = ssh\n"
    )
    for keys, said in (
        ("", "credentials: {signing: ['~/.ssh/id.pub']}"),
        ("credentials: {signing: ['gpg:" + "0" * 40 + "']}\n", "credentials: {signing: ["),
        ("credentials: {signing: [~/.ssh/id.pub]}\n", ""),
    ):
        policy = Policy.from_text(f"schema: 1\nmethod: bwrap\n{keys}")
        facts = collect_facts(policy, project=project.root, environ={"HOME": str(project.home)})
        found = committer.unsigned(policy.resolve(facts), LiveHost(), own_root=False)
        assert said in found
        assert bool(said) is bool(found)
