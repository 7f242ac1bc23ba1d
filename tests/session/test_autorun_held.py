"""Files that tools of the host run by themselves can't be changed inside, or are named at the run's end.

Tests of nested.py.
Tests of policy/autorun.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sandwright import process
from sandwright.nested import MAX_DIRECTORIES, MAX_FOUND
from sandwright.policy.autorun import NAMES, AutorunName
from session.conftest import Project
from support.thorough import representative

pytestmark = pytest.mark.needs("bwrap", "git")

GIT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
COMMIT = "git -c user.name=n -c user.email=e@example.org -c commit.gpgsign=false commit -q"
WRITE = """
while read -r path; do
    mkdir -p "$(dirname "$path")" 2>/dev/null
    (echo x >>"$path") 2>/dev/null && echo "$path"
done <<'NAMES'
{}
NAMES
true
"""


def _paths(*decisions: str) -> list[str]:
    return [each.path.replace("*", "x") for each in NAMES if each.decision in decisions]


def _make(root: Path, each: AutorunName) -> str:
    """Make a file of this name, or only its metadata if that counts. Return a program's content for it."""
    where = root / (each.metadata or each.path)
    if each.metadata or each.path in DIRECTORIES:
        where.mkdir(parents=True, exist_ok=True)
        return each.path if each.metadata else f"{each.path}/x"
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text("")
    return each.path


DIRECTORIES = {
    ".vscode",
    ".idea",
    ".codex",
    ".cursor",
    ".husky",
    ".helix",
    ".zed",
    ".kiro",
    ".git/hooks",
    ".git/remotes",
    ".git/branches",
    "CVS",
}
"""The names that are made as directories here; as files they are protected, too."""


@pytest.mark.parametrize("below", ["", "one/", "one/two/three/"])
def test_what_is_there_is_held(project: Project, below: str) -> None:
    """This also holds below the project's root, in repositories other than submodules, for missing names."""
    root = project.root / below
    root.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(root / ".git", ignore_errors=True)
    process.run("git", "init", "-q", root, env=GIT)
    rows = [each for each in NAMES if each.decision in ("protect", "existing")]
    written = [f"{below}{_make(root, each)}" for each in rows]
    left = [f"{below}{name}" for name in _paths("leave")]
    ended = project.run("sh", "-c", WRITE.format("\n".join([*written, *left])))
    assert ended.stdout.decode().split() == left, ended.stderr
    assert b"new or changed" not in ended.stderr, ended.stderr


def test_what_is_made_is_reported(project: Project) -> None:
    names = _paths("existing", "report")
    # A policy exists, which no program inside can change, and placeholders replace the others.
    held = ("sandbox.yaml", ".sandbox", ".config/", ".claude/")
    names = [name for name in names if not name.startswith(held)]
    reported = set()
    for some in (names[:40], names[40:80], names[80:]):  # above 50, only the number is printed
        ended = project.run("sh", "-c", WRITE.format("\n".join(some)))
        assert ended.stdout.decode().split() == some, ended.stderr
        lines = [line for line in ended.stderr.decode().splitlines() if "new or changed" in line]
        reported |= {name for name in some for line in lines if f"{project.root}/{name}: prog" in line}
        assert "(Helix)" in ended.stderr.decode() or ".helix" not in some
    assert [name for name in names if name not in reported] == []


def test_a_repository_that_appears_is_seen_by_the_next_run(project: Project) -> None:
    """The stored rendering is valid as long as there is none."""
    (project.root / "sub").mkdir()
    write = "echo x >>sub/.git/config; echo x >>sub/.envrc; true"
    assert project.run("true").returncode == 0
    process.run("git", "init", "-q", project.root / "sub", env=GIT)
    (project.root / "sub" / ".envrc").touch()
    before = (project.root / "sub" / ".git" / "config").read_bytes()
    ended = project.run("sh", "-c", write)
    assert ended.stderr.count(b"Read-only file system") == 2
    assert (project.root / "sub" / ".git" / "config").read_bytes() == before


@pytest.mark.parametrize("name", ["remotes", "branches"])
def test_a_run_names_no_remote(project: Project, name: str) -> None:
    """Git reads the address of `origin` there if its configuration has none, and may run hooks there."""
    git, hook = project.root / ".git", project.root / "x.git" / "hooks" / "pre-receive"
    shutil.rmtree(git, ignore_errors=True)
    process.run("git", "init", "-q", "-b", "main", project.root, env=GIT)
    process.run("sh", "-c", f"{COMMIT} --allow-empty -m x", cwd=project.root, env=GIT)
    shutil.rmtree(git / name, ignore_errors=True)
    address = f"URL: {project.root}/x.git" if name == "remotes" else f"{project.root}/x.git"
    script = f"git init -q --bare x.git; mkdir -p .git/{name}; echo '{address}' >.git/{name}/origin; true"
    ended = project.run("sh", "-c", script)
    hook.write_text(f"#!/bin/sh\ntouch {project.root}/pwned\n")
    hook.chmod(0o755)
    process.run("git", "-C", project.root, "push", "origin", "main", env=GIT, check=False)
    assert not (project.root / "pwned").exists(), ended.stderr


def test_commits_in_a_nested_repository_work(project: Project) -> None:
    process.run("git", "init", "-q", project.root / "sub", env=GIT)
    ended = project.run(
        "sh", "-c", f"cd sub && echo x >f && git add f && {COMMIT} -m x && git status --short"
    )
    assert (ended.returncode, ended.stdout) == (0, b""), ended.stderr
    assert b"new or changed" not in ended.stderr
    assert not [*(project.root / "sub" / ".git").glob("commondir")]  # placeholders are gone


ATTACK = """
cd {store}
for hook in hooks/post-update hooks/reference-transaction; do
    printf '#!/bin/sh\\ntouch {pwned}\\n' >$hook; chmod +x $hook
done
git config core.fsmonitor {program}; git config core.bare false; git config core.worktree "$PWD"
printf '[core]\\nfsmonitor = {program}\\nbare = false\\nworktree = %s\\n' "$PWD" >config
printf '[core]\\nfsmonitor = {program}\\n' >config.worktree; echo {store}.other >commondir
mv {store} {store}.away && cp -a {store}.away {store}
"""
"""The files that determine what Git on the host runs in a repository, and the paths to them."""


def _use(store: Path, home: Path) -> None:
    """Use a repository as a user who inspects it."""
    environ = {**GIT, "HOME": str(home)}
    for words in (
        ["status"],
        ["-C", str(store), "log"],
        ["-C", str(store), "update-ref", "refs/tags/t", "main"],
    ):
        subprocess.run(["git", *words], cwd=store, env=environ, timeout=60, check=False)


@pytest.mark.parametrize("place", ["store.git", "one/two/store"])
def test_a_bare_repository_runs_nothing_of_ours(project: Project, tmp_path: Path, place: str) -> None:
    """`cd store && git status` is enough."""
    store, pwned, program = project.root / place, tmp_path / "pwned", project.root / "program"
    program.write_text(f"#!/bin/sh\ntouch {pwned}\n")
    program.chmod(0o755)
    process.run("git", "clone", "-q", "--mirror", _committed(tmp_path), store, env=GIT)
    before = (store / "config").read_bytes()
    ended = project.run("sh", "-c", ATTACK.format(store=store, pwned=pwned, program=program))
    _use(store, tmp_path)
    assert not pwned.exists(), ended.stderr
    assert (store / "config").read_bytes() == before
    assert b"new or changed" not in ended.stderr, ended.stderr


def test_work_with_a_bare_repository_goes_on(project: Project, tmp_path: Path) -> None:
    store = project.root / "store.git"
    process.run("git", "clone", "-q", "--mirror", _committed(tmp_path), store, env=GIT)
    work = f"""set -e
        git clone -q store.git copy; cd copy; echo x >f; git add f; {COMMIT} -m two; git push -q origin main
        cd ../store.git; git gc -q; git branch new; git branch -D new; git log --oneline | wc -l"""
    ended = project.run("sh", "-c", work)
    assert ended.stdout.split()[-1:] == [b"2"], ended.stderr
    assert sorted(each.name for each in store.iterdir() if each.name == "commondir") == []
    process.run("git", "-C", store, "fsck", env=GIT)


def _committed(directory: Path) -> Path:
    """Make a repository with a commit, outside of the project."""
    source = directory / "source"
    process.run("git", "init", "-q", "-b", "main", source, env=GIT)
    process.run("sh", "-c", f"{COMMIT} --allow-empty -m one", cwd=source, env=GIT)
    return source


def test_an_exception_opens_one_name(project: Project) -> None:
    (project.root / "sub").mkdir()
    for name in ("sub/.envrc", "sub/.mcp.json", ".helix"):
        (project.root / name).touch()
    exceptions = "{path: $PROJECT/sub/.envrc, reason: x}, {path: $PROJECT/.helix, reason: x}"
    project.policy.write_text(
        f"schema: 1\nmethod: bwrap\nfilesystem: {{write: [$PROJECT], unprotect: [{exceptions}]}}\n"
    )
    ended = project.run("sh", "-c", WRITE.format("sub/.envrc\nsub/.mcp.json\n.helix"))
    assert ended.stdout.decode().split() == ["sub/.envrc", ".helix"], ended.stderr


@pytest.mark.needs("hg")
def test_mercurial_works_and_runs_nothing_of_ours(project: Project, tmp_path: Path) -> None:
    """The real program, on the host and inside."""
    hg, pwned = shutil.which("hg"), tmp_path / "pwned"
    assert hg
    environ = {**GIT, "HGPLAIN": "1", "HGUSER": "n"}
    subprocess.run([hg, "init", project.root], check=True, env=environ, timeout=60)
    hook = f"[hooks]\npre-status = touch {pwned}\n"
    script = (
        f"echo x >f && HGUSER=n {hg} commit -qAm x f; printf '{hook}' >>.hg/hgrc; {hg} log -T '{{desc}}\n'"
    )
    ended = project.run("sh", "-c", script)
    assert ended.stdout == b"x\n", ended.stderr
    assert b".hg/hgrc" in ended.stderr
    subprocess.run([hg, "status"], check=True, env=environ, cwd=project.root, timeout=60, capture_output=True)
    assert not pwned.exists()


DECOYS = {
    "names": "mkdir a; for n in $(seq 205); do mkdir a/$n; : >a/$n/HEAD; done",
    "directories": "mkdir .a; cd .a; seq 1100 | xargs mkdir",
    "entries": "mkdir .a; cd .a; seq 11000 | xargs touch",
    "caches": "mkdir -p node_modules target; cd node_modules; seq 1100 | xargs mkdir",
}
"""The files with which a program inside ended the search before it came to other directories."""


@pytest.mark.parametrize("kind", DECOYS)
def test_a_repository_is_held_whatever_lies_before_it(project: Project, kind: str) -> None:
    for name in ("z/r", "target/r"):
        subprocess.run(["git", "init", "-q", project.root / name], check=True, env=GIT)
    assert project.run("sh", "-c", DECOYS[kind]).returncode == 0
    ended = project.run("sh", "-c", "for d in z target; do echo x >>$d/r/.git/config && echo $d; done; true")
    assert (ended.returncode, ended.stdout) == (0, b""), ended.stderr


TOO_MANY = {
    "directories": (
        f"mkdir a; cd a; seq {MAX_DIRECTORIES + 1} | xargs mkdir",
        f"/a has too many directories to be searched ({MAX_DIRECTORIES:,} in all). Repositories and settings",
    ),
    "names": (
        f"mkdir a; cd a; for n in $(seq {MAX_FOUND // 50 + 1}); do mkdir $n; "
        "(cd $n; seq 50 | xargs mkdir; seq -f %g/HEAD 50 | xargs touch); done",
        f" has more than {MAX_FOUND:,} names that programs use. Repositories and settings",
    ),
    "repositories": (
        "git init -q a/0; for n in $(seq 205); do cp -r a/0 a/$n; done",
        "there are more than 200 repositories in writable directories, too many to protect one by one",
    ),
}


@pytest.mark.parametrize("kind", representative(TOO_MANY, "names", "repositories"))
def test_a_run_is_refused_if_it_cannot_hold_every_repository(project: Project, kind: str) -> None:
    """Protecting only some would not be enough: an earlier run chooses their number.

    test_autorun.py tests each bound of the search, with smaller ones.
    """
    subprocess.run(["git", "init", "-q", project.root / "z/r"], check=True, env=GIT)
    before = (project.root / "z/r/.git/config").read_bytes()
    make, refusal = TOO_MANY[kind]
    assert project.run("sh", "-c", make).returncode == 0
    ended = project.run("sh", "-c", "echo x >>z/r/.git/config")
    assert (ended.returncode, refusal in ended.stderr.decode()) == (125, True), ended.stderr
    assert (project.root / "z/r/.git/config").read_bytes() == before


def test_what_cannot_be_written_is_not_searched(project: Project) -> None:
    """The remedy for a refusal: a directory that is too large is made read-only."""
    project.policy.write_text(f"{project.policy.read_text()}  readonly: [$PROJECT/a]\n")
    subprocess.run(["git", "init", "-q", project.root / "z/r"], check=True, env=GIT)
    for number in range(MAX_FOUND + 1):
        (project.root / "a" / str(number)).mkdir(parents=True)
        (project.root / "a" / str(number) / "HEAD").touch()
    ended = project.run("sh", "-c", "echo x >>z/r/.git/config; echo x >>a/1/HEAD")
    assert ended.stderr.count(b"Read-only file system") == 2, ended.stderr


@pytest.mark.parametrize("path", [".dotfiles", "src/.worktrees/feature"])
def test_nested_repositories_are_held_where_a_dot_is_above_the_project(project: Project, path: str) -> None:
    """Names with an initial dot are settings in a home, and no reason to skip a project."""
    root = project.home / path
    names = ["z/repo/.git/config", "z/repo/.git/hooks/x", "z/bare.git/config", "z/.vscode/tasks.json"]
    for words in (
        ["init", str(root)],
        ["init", str(root / "z/repo")],
        ["init", "--bare", str(root / "z/bare.git")],
    ):
        subprocess.run(["git", *words, "-q"], check=True, env=GIT)
    (root / "z/.vscode").mkdir()
    (root / "sandbox.yaml").write_text("schema: 1\nmethod: bwrap\nextends: [default]\n")
    ended = project.sandwright("run", "--", "sh", "-c", WRITE.format("\n".join([*names, "z/new"])), cwd=root)
    assert ended.stdout.split() == [b"z/new"], ended.stderr
