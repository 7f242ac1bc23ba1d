"""The paths that lead Git to repositories, and those in its configuration, can't be changed inside.

Tests of policy/git_protection.py.
Tests of policy/git_repositories.py.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.errors import UsageError
from sandwright.git import config
from sandwright.git.index import gitlinks
from sandwright.methods.registry import render
from sandwright.policy import git_protection
from sandwright.policy.collect import collect_facts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import mount_plan
from support.goldens import write_artifacts

pytestmark = pytest.mark.needs("git")

GIT = (
    "git", "-c", "protocol.file.allow=always", "-c", "user.name=n", "-c", "user.email=e@example.org",
    "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main",
)  # fmt: skip


def _git(cwd: Path, *words: str) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(cwd.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    process.run(*GIT, *words, cwd=cwd, env=environ, timeout=60)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A project with a repository, and one beside it."""
    for name in ("repo", "module"):
        (tmp_path / name).mkdir()
        _git(tmp_path / name, "init", "-q")
        _git(tmp_path / name, "commit", "-q", "--allow-empty", "-m", "x")
    return tmp_path / "repo"


def _resolved(project: Path, text: str = "", **facts: object) -> ResolvedPolicy:
    policy = Policy.from_text(f"method: bwrap\n{text}")
    found = collect_facts(policy, project=project, environ={"HOME": str(project.parent)})
    return policy.resolve(replace(found, **facts))  # type: ignore[arg-type]


def _covered(policy: ResolvedPolicy) -> set[str]:
    return {cover.path for cover in mount_plan(policy, root="host").placeholders}


def test_the_git_file_of_a_submodule_stays(repo: Path) -> None:
    _git(repo, "submodule", "--quiet", "add", str(repo.parent / "module"), "deep/sub")
    _git(repo, "worktree", "add", "-q", "tree")
    policy = _resolved(repo)
    for name in ("deep/sub/.git", "tree/.git", ".git/worktrees/tree/gitdir"):
        assert not policy.is_path_writable(f"{repo}/{name}")
        assert [rule for rule in policy.filesystem.rules if rule.path == f"{repo}/{name}"]
    assert policy.is_path_writable(f"{repo}/deep/sub/file")
    assert policy.is_path_writable(f"{repo}/tree/file")


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_one_that_is_not_checked_out_is_not_made(repo: Path, version: str) -> None:
    """Git would enter a directory that the index lists as a repository as soon as it exists."""
    (repo / "file").write_text("x" * 100)
    (repo / "new").write_text("x")
    _git(repo, "add", "file")
    link = f"160000,{'0' * 39}1,a/sub"
    _git(repo, "update-index", "--add", "--cacheinfo", link)
    if version == "3":
        _git(repo, "add", "--intent-to-add", "new")
    _git(repo, "update-index", "--index-version", version)
    policy = _resolved(repo)
    assert not policy.is_path_writable(f"{repo}/a/sub/.git")
    assert f"{repo}/a" in _covered(policy)
    (repo / "a" / "sub").mkdir(parents=True)
    policy = _resolved(repo)
    assert f"{repo}/a/sub/.git" in _covered(policy)
    assert policy.is_path_writable(f"{repo}/a/sub/file")


NAMES = [b"\xff\xfe", b"a\nb", b"a:b", b"../y", b"x/../../y", b"a" * 300, b"'$(x)'", b"/y"]


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("name", NAMES)
def test_an_index_that_somebody_made_up(repo: Path, tmp_path: Path, name: bytes) -> None:
    """For any name in it, sandboxes start, and no file is made outside the project."""
    entry = bytes(24) + b"\0\0\xe0\0" + bytes(12 + 20) + len(name).to_bytes(2, "big") + name + b"\0"
    (repo / ".git" / "index").write_bytes(b"DIRC" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + entry)
    policy = _resolved(repo)
    assert [path for path in _covered(policy) if not path.startswith(f"{repo}/")] == []
    launcher = f"{write_artifacts(tmp_path / 'out', render(policy, 'bwrap').artifacts)}/launch"
    assert process.run(launcher, "echo", "ran", timeout=60).text == "ran"


def _entry(path: bytes, removed: bytes) -> bytes:
    """A version-4 index entry for a repository, whose path shares a prefix with the previous entry."""
    return bytes(24) + b"\0\0\xe0\0" + bytes(12 + 20) + b"\x0f\xff" + removed + path + b"\0"


@pytest.mark.parametrize("version", [2, 4])
def test_an_index_that_was_made_to_fill_the_memory(version: int) -> None:
    """A few MB of it would give GB of paths."""
    if version == 4:
        entries = _entry(b"a" * (1 << 20), b"\0") + 400 * _entry(b"a", b"\1")
    else:
        one = b"\0\0\xe0\0" * 8 + b"\xff" * 64
        entries = b"".join(one + f"{number:05}".encode() * 840 for number in range(1000))
    index = b"DIRC" + version.to_bytes(4, "big") + (401).to_bytes(4, "big") + entries
    tracemalloc.start()
    try:
        gitlinks(index)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30 << 20


@pytest.mark.parametrize("planted", ["HEAD", "group/HEAD", "group/HEAD/x"])
@pytest.mark.parametrize("name", ["lib", "objects"])
def test_a_submodule_whose_place_looks_like_a_repository(repo: Path, name: str, planted: str) -> None:
    """A program inside can make such a file; the submodule's own directory stays protected."""
    inner = repo / ".git/modules/group" / name
    inner.mkdir(parents=True)
    (inner / "HEAD").write_text("ref: refs/heads/main\n")
    (inner / "config").write_text("[core]\n")
    file = repo / ".git/modules" / planted
    file.parent.mkdir(exist_ok=True)
    file.write_text("ref: refs/heads/main\n")
    assert not _resolved(repo).is_path_writable(f"{inner}/config")


def test_a_submodule_without_the_file_that_git_knows_it_by(repo: Path) -> None:
    """A program inside can move the file away, and restore it in a later run."""
    inner = repo / ".git/modules/lib"
    inner.mkdir(parents=True)
    (inner / "config").write_text("[core]\n")
    assert not _resolved(repo).is_path_writable(f"{inner}/config")
    assert not _resolved(repo).is_path_writable(f"{inner}/hooks/pre-commit")


def test_directories_without_an_end_where_submodules_are(repo: Path) -> None:
    """A program inside can make them, and every later run searches there."""
    folder = repo / ".git" / "modules"
    folder.mkdir()
    above = os.open(folder, os.O_RDONLY)
    try:
        for _ in range(1500):
            os.mkdir("d", dir_fd=above)
            below = os.open("d", os.O_RDONLY, dir_fd=above)
            os.close(above)
            above = below
        with pytest.raises(UsageError, match="remove the directories that no submodule of yours needs"):
            _resolved(repo)
    finally:
        os.close(above)
        process.run("rm", "-rf", folder)


def test_many_directories_where_submodules_are(repo: Path) -> None:
    for number in range(10_001):
        (repo / f".git/modules/{number}").mkdir(parents=True)
    with pytest.raises(UsageError, match="remove the directories that no submodule of yours needs"):
        _resolved(repo)


def test_a_repository_that_the_index_names_is_protected(repo: Path) -> None:
    """A submodule that contains its Git directory, as manual clones do."""
    _git(repo, "clone", "-q", str(repo.parent / "module"), "sub")
    _git(repo, "add", "sub")
    policy = _resolved(repo)
    assert not policy.is_path_writable(f"{repo}/sub/.git/config")
    assert not policy.is_path_writable(f"{repo}/sub/.git/hooks/pre-commit")
    assert policy.is_path_writable(f"{repo}/sub/.git/index")


FORMS: dict[str, list[tuple[str, ...]]] = {
    "split": [("update-index", "--split-index")],
    "split, version 4": [("update-index", "--index-version", "4"), ("update-index", "--split-index")],
    "sparse": [
        ("config", "index.sparse", "true"),
        ("sparse-checkout", "init", "--cone", "--sparse-index"),
        ("sparse-checkout", "set", "a/b"),
    ],
    "caches": [("update-index", "--force-untracked-cache"), ("update-index", "--force-write-index")],
}
"""An index that Git writes in another form."""


@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_index_is_read(tmp_path: Path, form: str, hashes: str) -> None:
    """Below the third level, only the index names a repository."""
    repo, sub = tmp_path / "home" / "repo", "a/b/c/d/sub"
    (repo / sub).mkdir(parents=True)
    for directory in (repo / sub, repo):
        _git(directory, "init", "-q", f"--object-format={hashes}")
        _git(directory, "commit", "-q", "--allow-empty", "-m", "x")
    _git(repo, "add", "a")
    _git(repo, "commit", "-q", "-m", "x")
    for words in FORMS[form]:
        _git(repo, *words)
    assert bool(list((repo / ".git").glob("sharedindex.*"))) is form.startswith("split")
    policy = _resolved(repo)
    assert not policy.is_path_writable(f"{repo}/{sub}/.git/config")
    assert not policy.is_path_writable(f"{repo}/{sub}/.git/hooks/pre-commit")
    assert policy.is_path_writable(f"{repo}/{sub}/.git/index")


def test_more_than_can_be_protected_is_refused(repo: Path) -> None:
    for number in range(git_protection.MOST + 5):
        folder = repo / ".git" / "modules" / f"m{number}"
        folder.mkdir(parents=True)
        (folder / "HEAD").touch()
    with pytest.raises(UsageError, match=f"more than {git_protection.MOST} repositories") as refused:
        _resolved(repo)
    assert f"such as {repo}/.git/modules/m" in str(refused.value)
    assert "filesystem.readonly (with submodules $PROJECT/.git)" in str(refused.value)
    policy = _resolved(repo, "filesystem: {write: [$PROJECT], readonly: [$PROJECT/.git]}\n")
    assert not policy.is_path_writable(f"{repo}/.git/modules/m204/config")
    (repo.parent / "other").mkdir()
    _resolved(repo, f"filesystem: {{write: [{repo.parent}/other]}}\n")


@pytest.mark.parametrize("bare", [False, True])
def test_many_repositories_in_a_directory_that_is_read_only(repo: Path, *, bare: bool) -> None:
    """An earlier run may have left them: read-only, none of them needs a mount."""
    for number in range(300):
        folder = repo / "many" / f"m{number}" / ("" if bare else ".git")
        for name in ("objects", "refs"):
            (folder / name).mkdir(parents=True)
        (folder / "HEAD").touch()
    _git(repo, "init", "-q", "near")
    policy = _resolved(repo, "filesystem: {write: [$PROJECT, $PROJECT/many/m7], readonly: [$PROJECT/many]}\n")
    for path in (".git/config", "near/.git/config", "many/m7/config" if bare else "many/m7/.git/config"):
        assert not policy.is_path_writable(f"{repo}/{path}"), path
    assert policy.is_path_writable(f"{repo}/many/m7/file")
    assert len(policy.facts.git_directories) == 3


def test_more_files_than_can_be_protected_are_refused(repo: Path) -> None:
    files = {f"{repo}/m{number}/.git": "pointer" for number in range(git_protection.MOST + 1)}
    with pytest.raises(UsageError, match=f"more than {git_protection.MOST} repositories"):
        _resolved(repo, git_files=files)


NAMED = {
    "include": ("include.path", "../settings/git", "settings/git"),
    "an include with a condition": ("includeIf.onbranch:main.path", "../settings/git", "settings/git"),
    "hooks": ("core.hooksPath", "settings", "settings/pre-commit"),
    "attributes": ("core.attributesFile", "settings/git", "settings/git"),
    "the monitor": ("core.fsmonitor", "settings/git --fast", "settings/git"),
    "an argument": ("core.sshCommand", "ssh -F settings/git", "settings/git"),
    "a filter": ("filter.x.clean", "python3 'settings/git' %f", "settings/git"),
    "an alias": ("alias.x", "!sh settings/git", "settings/git"),
    "a function": ("alias.x", "!f() { settings/git; }; f", "settings/git"),
    "a list": ("filter.x.clean", "true;settings/git|cat", "settings/git"),
    "a substitution": ("alias.x", "!echo `settings/git` $(true)", "settings/git"),
    "a quoted command": ("alias.x", "!sh -c 'settings/git --fast && true'", "settings/git"),
    "from the top": ("alias.x", "!$(git rev-parse --show-toplevel)/settings/git", "settings/git"),
    "from a variable": ("core.editor", '"${PWD}/settings/git" -w', "settings/git"),
    "after an assignment": ("core.pager", "LESS=x settings/git", "settings/git"),
    "an external diff": ("diff.external", "settings/git", "settings/git"),
    "a command's pager": ("pager.log", "settings/git", "settings/git"),
    "a key's program": ("gpg.ssh.defaultKeyCommand", "settings/git", "settings/git"),
    "the other side": ("remote.o.uploadpack", "settings/git", "settings/git"),
    "alternates": ("core.alternateRefsCommand", "settings/git", "settings/git"),
    "a tool": ("mergetool.x.path", "settings/git", "settings/git"),
    "a submodule's update": ("submodule.x.update", "!settings/git", "settings/git"),
    "mail": ("sendemail.toCmd", "settings/git", "settings/git"),
    "in the home": ("core.attributesFile", "~/repo/settings/git", "settings/git"),
}


@pytest.mark.parametrize("case", NAMED)
def test_what_configuration_names_in_the_project_stays(repo: Path, case: str) -> None:
    key, value, path = NAMED[case]
    (repo / "settings").mkdir()
    for name in ("git", "pre-commit", "other"):
        (repo / "settings" / name).touch()
    _git(repo, "config", key, value)
    policy = _resolved(repo)
    assert not policy.is_path_writable(f"{repo}/{path}")
    assert policy.is_path_writable(f"{repo}/settings/other") == (case != "hooks")


def test_what_an_included_file_names_stays(repo: Path) -> None:
    (repo / "git").write_text("[core]\n\thooksPath = hooks\n[include]\n\tpath = more\n")
    (repo / "more").write_text("[core] fsmonitor = ./monitor\n")
    (repo / "monitor").touch()
    _git(repo, "config", "include.path", "../git")
    policy = _resolved(repo)
    for name in ("git", "more", "monitor", "hooks/pre-commit"):
        assert not policy.is_path_writable(f"{repo}/{name}")
    assert f"{repo}/hooks" in _covered(policy)


@pytest.mark.parametrize("value", [".", "../repo/", ".."])
def test_hooks_from_the_project_as_a_whole_are_refused(repo: Path, value: str) -> None:
    _git(repo, "config", "core.hooksPath", value)
    text = f"filesystem: {{write: [$PROJECT, {repo.parent}/module]}}\n"
    if value == "..":
        _resolved(repo, text)  # files in that directory can't be made
        return
    with pytest.raises(UsageError, match="give hooks a separate directory"):
        _resolved(repo, text)


def test_an_include_that_is_missing_is_refused(repo: Path) -> None:
    _git(repo, "config", "include.path", "../settings")
    with pytest.raises(UsageError, match=f"includes {repo}/settings, which doesn't exist"):
        _resolved(repo)
    _git(repo, "config", "include.path", str(repo.parent / "settings"))
    _resolved(repo)  # no program inside can make it


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[core]\n\thooksPath = a\n", [("core.hookspath", "a")]),
        ("[core] hooksPath = a # b\n; c\n\tbare\n", [("core.hookspath", "a"), ("core.bare", "true")]),
        ('[Include "x]\\"Y"] Path=" a;b "\n', [('include.x]"Y.path', " a;b ")]),
        ("[a.B]\nc = d \\\n  e\r\n", [("a.b.c", "d   e")]),
        ("[a]\nb = \"c\\n\\t\\\"d\\\\\" e  \n[f]\ng=", [("a.b", 'c\n\t"d\\ e'), ("f.g", "")]),
        ("\ufeff[a]\nb=c\n= wrong\nd=e\n", [("a.b", "c")]),
        ("b = c\n", [("b", "c")]),
        ("[a]\r\nb = c\\\r\nd\r\n", [("a.b", "cd")]),
    ],
)  # fmt: skip
def test_configuration(text: str, said: list[tuple[str, str]], tmp_path: Path) -> None:
    """The expected values are Git's own, for files that Git accepts."""
    assert [*config.settings(text)] == said
    file = tmp_path / "config"
    file.write_bytes(text.encode())
    listed = process.run("git", "config", "--file", file, "--list", "-z", check=False)
    if listed.status == 0:
        pairs = [each.partition("\n") for each in listed.stdout.decode().split("\0") if each]
        assert [(key, value if newline else "true") for key, newline, value in pairs] == said


@pytest.mark.parametrize("place", ["store.git", "a/b/store"])
@pytest.mark.parametrize("kind", ["bare", "mirror", "separate", "linked"])
def test_a_repository_of_any_name_is_protected(repo: Path, place: str, kind: str) -> None:
    """Git recognises a repository by its contents, when a user works in it or names it."""
    store = repo / place
    store.parent.mkdir(parents=True, exist_ok=True)
    if kind == "bare":
        _git(repo, "init", "-q", "--bare", str(store))
    elif kind == "mirror":
        _git(repo, "clone", "-q", "--mirror", str(repo.parent / "module"), str(store))
    elif kind == "separate":  # its work tree is outside the project
        _git(repo, "init", "-q", f"--separate-git-dir={store}", str(repo.parent / "elsewhere"))
    else:  # HEAD and pointers only: the rest is deeper than the search
        _git(repo, "init", "-q", "--bare", str(repo / "a/b/c/d/e"))
        store.mkdir()
        (store / "HEAD").write_text("ref: refs/heads/main\n")
        (store / "commondir").write_text(f"{repo}/a/b/c/d/e\n")
    policy = _resolved(repo)
    used = repo / "a/b/c/d/e" if kind == "linked" else store
    for name in ("config", "hooks/post-update", "info/attributes", "remotes/origin", "branches/origin"):
        assert not policy.is_path_writable(f"{used}/{name}"), name
    assert policy.is_path_writable(f"{used}/refs/heads/new")
    assert policy.is_path_writable(f"{store.parent}/other")
    assert str(store) in mount_plan(policy, root="host").repositories


@pytest.mark.parametrize("moved", ["HEAD", "refs"])
@pytest.mark.parametrize("left", ["info", "pack"])
def test_a_bare_repository_that_lacks_its_configuration_stays_one(repo: Path, moved: str, left: str) -> None:
    """A program inside moves a name away, makes the file in its next run, and restores the name."""
    store = repo / "a" / "store"
    store.parent.mkdir()
    _git(repo, "init", "-q", "--bare", str(store))
    (store / "config").unlink()
    assert not _resolved(repo).is_path_writable(f"{store}/config")
    (store / moved).rename(repo / "kept")
    (store / "objects" / ({"info", "pack"} - {left}).pop()).rmdir()
    policy = _resolved(repo)
    for name in ("config", "hooks/post-update", "objects/info/alternates"):
        assert not policy.is_path_writable(f"{store}/{name}"), name
    assert policy.is_path_writable(f"{store}/refs/heads/new")


def test_what_a_bare_repository_names_stays(repo: Path) -> None:
    """Without a work tree, Git finds hooks relative to the repository."""
    store = repo / "store"
    _git(repo, "init", "-q", "--bare", str(store))
    (store / "more").touch()
    _git(store, "config", "include.path", "more")
    _git(store, "config", "core.hooksPath", "mine")
    policy = _resolved(repo)
    assert not policy.is_path_writable(f"{store}/more")
    assert not policy.is_path_writable(f"{store}/mine/post-update")


def test_what_only_looks_like_a_repository_is_none(repo: Path) -> None:
    (repo / "notes/objects").mkdir(parents=True)
    (repo / "notes/HEAD").touch()
    assert _resolved(repo).is_path_writable(f"{repo}/notes/config")


def test_more_includes_than_can_be_protected_are_refused(repo: Path) -> None:
    for number in range(101):
        (repo / f"more{number}").touch()
        _git(repo, "config", "--add", "include.path", f"../more{number}")
    with pytest.raises(UsageError, match="is one of more than 100 files that Git's configuration includes"):
        _resolved(repo)


def test_a_configuration_that_is_not_read_whole_is_refused(repo: Path) -> None:
    """Git reads all of it, and its last lines may name a program."""
    (repo / "more").write_text("# text\n" * 150_000 + "[core]\n\thooksPath = hooks\n")
    _git(repo, "config", "include.path", "../more")
    with pytest.raises(
        UsageError, match=f"cannot read Git's configuration {repo}/.git/../more: it is larger"
    ):
        _resolved(repo)


def test_line_breaks_behind_a_pointer_are_not_part_of_it(repo: Path) -> None:
    store, tree = repo.parent / "store", repo / "a/b/c/d/e"  # deeper than the search
    _git(repo, "init", "-q", str(store))
    tree.mkdir(parents=True)
    (repo / "t").mkdir()
    (store / ".git").rename(tree / "git")
    (repo / "t/.git").write_bytes(f"gitdir: {tree}/git\r\n\n\n".encode())
    _git(repo / "t", "status")
    assert not _resolved(repo).is_path_writable(f"{tree}/git/config")


@pytest.mark.parametrize("end", [" ", "\x1f", "\u3000"], ids=["space", "separator", "wide space"])
@pytest.mark.parametrize("pointer", [".git", "commondir"])
def test_white_space_at_the_end_of_a_pointer_is_part_of_it(repo: Path, pointer: str, end: str) -> None:
    store, tree = repo.parent / "store", repo / "a/b/c/d/e"  # deeper than the search
    _git(repo, "init", "-q", str(store))
    tree.mkdir(parents=True)
    (repo / "t").mkdir()
    (store / ".git").rename(tree / f"git{end}")
    if pointer == "commondir":
        (repo / "own").mkdir()
        (repo / "own/HEAD").write_text("ref: refs/heads/main\n")
        (repo / "own/commondir").write_text(f"{tree}/git{end}\n")
    (repo / "t/.git").write_text(
        f"gitdir: {repo / 'own' if pointer == 'commondir' else f'{tree}/git{end}'}\n"
    )
    _git(repo / "t", "status")
    assert not _resolved(repo).is_path_writable(f"{tree}/git{end}/config")


def _submodule_directory(repo: Path, name: str) -> None:
    (repo / ".git/modules" / name).mkdir(parents=True)
    (repo / ".git/modules" / name / "config").write_text("[core]\n")


def _nested_repository(repo: Path, name: str) -> None:
    _git(repo, "init", "-q", f"z/{name}")


def _nested_bare_repository(repo: Path, name: str) -> None:
    _git(repo, "init", "-q", "--bare", f"z/{name}")


def _nested_settings(repo: Path, name: str) -> None:
    (repo / "z" / name / ".vscode").mkdir(parents=True)


@pytest.mark.parametrize(
    "make", [_submodule_directory, _nested_repository, _nested_bare_repository, _nested_settings]
)
def test_names_that_no_rule_can_protect_are_refused(repo: Path, make: Callable[[Path, str], None]) -> None:
    """A stranger's repository may have a submodule with such a name, and Git on the host uses it."""
    make(repo, os.fsdecode(b"caf\xe9"))
    with pytest.raises(UsageError, match=r"cannot protect .*: its path is not UTF-8"):
        _resolved(repo)
    assert _resolved(repo, "filesystem: {write: [], read: [$PROJECT]}")
    if make is not _submodule_directory:
        assert _resolved(repo, "filesystem: {readonly: [$PROJECT/z]}")


@pytest.mark.parametrize("where", ["", "a/b/"])
@pytest.mark.parametrize("store", [".jj/repo/store/git", ".sl/store/git"])
def test_the_git_repository_of_another_tool_is_protected(repo: Path, store: str, where: str) -> None:
    """Jujutsu and Sapling start the host's Git there."""
    (repo / where / store).mkdir(parents=True)
    _git(repo, "init", "-q", "--bare", f"{where}{store}")
    policy = _resolved(repo)
    assert not policy.is_path_writable(f"{repo}/{where}{store}/config")
    assert not policy.is_path_writable(f"{repo}/{where}{store}/hooks/pre-push")
    assert policy.is_path_writable(f"{repo}/{where}{store}/objects/x")


ENCLOSED = {
    "hooks": ("core.hooksPath", "src/app/settings", "settings/pre-commit"),
    "the monitor": ("core.fsmonitor", "src/app/settings/git --fast", "settings/git"),
    "an include": ("include.path", "../src/app/settings/git", "settings/git"),
}


@pytest.mark.parametrize("case", ENCLOSED)
def test_what_the_configuration_of_a_repository_above_names_stays(repo: Path, case: str) -> None:
    key, value, path = ENCLOSED[case]
    project = repo / "src/app"  # the home is above the project, and its own repository is another matter
    (project / "settings").mkdir(parents=True)
    for name in ("git", "pre-commit"):
        (project / "settings" / name).touch()
    _git(repo, "config", key, value)
    policy = _resolved(project)
    assert not policy.is_path_writable(f"{project}/{path}")
    assert policy.is_path_writable(f"{project}/file")


@pytest.mark.parametrize("tree", ["tree", "a/b/c/d/tree"])
@pytest.mark.parametrize("bare", [False, True])
def test_hooks_of_each_linked_work_tree_stay(repo: Path, tree: str, *, bare: bool) -> None:
    """A relative core.hooksPath starts at the work tree in which Git runs (git-config(1))."""
    if bare:
        (repo / ".git").rename(repo / ".bare")
        (repo / ".git").write_text("gitdir: ./.bare\n")
        _git(repo, "config", "core.bare", "true")
    _git(repo, "worktree", "add", "-q", tree)
    _git(repo, "config", "core.hooksPath", "settings/hooks")
    policy = _resolved(repo)
    assert not policy.is_path_writable(f"{repo}/{tree}/settings/hooks/pre-commit")
    assert policy.is_path_writable(f"{repo}/{tree}/settings/other")


POINTERS = (".jj/repo", ".hg/sharedpath", ".sl/sharedpath", ".sl/requires", ".bzr/branch/location")


@pytest.mark.parametrize("where", [".", "a/b"])
@pytest.mark.parametrize("name", POINTERS)
def test_the_pointer_to_metadata_elsewhere_stays(repo: Path, name: str, where: str) -> None:
    """Jujutsu, Sapling, Mercurial and Breezy read configuration at its target."""
    pointer = repo / where / name
    pointer.parent.mkdir(parents=True)
    pointer.write_text("../../main")
    policy = _resolved(repo)
    assert not policy.is_path_writable(str(pointer))
    assert policy.is_path_writable(f"{pointer.parent}/other")
