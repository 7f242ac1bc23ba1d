"""Files of a run that programs on the host may run are named at its end.

Tests of folding.py: names in another case.
Tests of session/absent_guard.py: a protected name made outside the project stops the next run.
Tests of session/scan.py.
Tests of session/scan_scope.py.
Tests of session/writable.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandwright import process
from sandwright.session import post_run_start, scan
from sandwright.session.post_run_start import Clock
from sandwright.session.repository_links import remove_link
from sandwright.session.scan_scope import ProtectedName, ScanScope
from session.conftest import Project

pytestmark = pytest.mark.needs("bwrap", "git")

GIT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
REPOSITORY = ": a repository"
LINK = ": a link in a repository"
RUNS = ": programs of the host may run"
BARE = "mkdir -p x/objects x/refs; echo ref: refs/heads/main >x/HEAD"
STRANGE = 'd=$(printf \'x\\n\\033[2J\'); mkdir "$d"; echo >"$d/.envrc"'
UNSEEN = 'd=$(printf \'x/.vs\\342\\200\\214code\'); mkdir -p "$d"; echo >"$d/tasks.json"'
ACTS = {
    "a repository": ("git init -q x", "x/.git", REPOSITORY),
    "a bare one": (BARE, "x", REPOSITORY),
    "one that is dated back": (f"{BARE}; find x -exec touch -d 2001-01-01 {{}} +", "x", REPOSITORY),
    "one by commondir": ("mkdir x; cd x; echo ../y >commondir; echo ref: refs/x >HEAD", "x", REPOSITORY),
    "one that is moved": ("mv vendor other", "other/lib/.git", REPOSITORY),
    "one that is completed": ("mv parts/HEAD parts/half", "parts/half", REPOSITORY),
    "a file that leads to one": ("mkdir x; echo gitdir: y >x/.git", "x/.git", ": leads Git to"),
    "a link that leads to one": ("mkdir x; ln -s y x/.git", "x/.git", ": leads Git to"),
    "configuration": ("echo >>vendor/lib/.git/config", "vendor/lib/.git", REPOSITORY),
    "a hook": ("echo >vendor/lib/.git/hooks/pre-commit", "vendor/lib/.git/hooks", ": Git runs files there"),
    "a link for Git": ("ln -s y vendor/lib/.git/MERGE_MSG", "vendor/lib/.git/MERGE_MSG", LINK),
    "a deep link": ("ln -s ../y vendor/lib/.git/refs/z", "vendor/lib/.git/refs/z", LINK),
    "a link in a bare one": (f"{BARE}; ln -s /y x/MERGE_MSG", "x/MERGE_MSG", f"{LINK} was removed"),
    "a deep one there": (f"{BARE}; ln -s /y x/refs/z", "x/refs/z", f"{LINK} was removed"),
    "a link in .GIT": (f"{BARE}; mv x .GIT; ln -s /y .GIT/z", ".GIT/z", f"{LINK} was removed"),
    "set-user-id": ("cp /bin/true x; chmod u+s x", "x", ": a set-user-id"),
    "set-group-id": ("mkdir .x; cp /bin/true .x/x; chmod g+s .x/x", ".x/x", ": a set-user-id"),
    "a hard link": ("ln owned x", "x", ": a set-user-id"),
    "a policy": ("mkdir x; echo >x/sandbox.yaml", "x/sandbox.yaml", RUNS),
    "an editor": ("mkdir -p x/.vscode; echo >x/.vscode/tasks.json", "x/.vscode", RUNS),
    "settings": ("echo >>vendor/.claude/settings.json", "vendor/.claude/settings.json", RUNS),
    "a directory like ours": ("mkdir -p x/.vscode/y; chmod 1555 x/.vscode", "x/.vscode", RUNS),
    "agents": ("echo >>vendor/.claude/agents/a/b", "vendor/.claude/agents", RUNS),
    "a shell": ("mkdir x; ln -s y x/.bashrc", "x/.bashrc", RUNS),
    "in another case": ("git init -q x; mv x/.git x/.GIT; mv x/.GIT/HEAD x/.GIT/head", "x/.GIT", REPOSITORY),
    "a link in another case": ("mkdir x; ln -s y x/.Git", "x/.Git", ": leads Git to"),
    "settings in another case": ("mkdir -p x/.Claude; echo >x/.Claude/Agents", "x/.Claude/Agents", RUNS),
    "with what isn't seen": (UNSEEN, "x/.vs\\u200ccode", RUNS),
    "a strange name": (STRANGE, "x\\n\\x1b[2J/.envrc", RUNS),
    "one in a closed directory": ("git init -q x; chmod 0 x", "x", ""),
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a repository, settings and a set-id file that existed before, and were scanned."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "root"
    root.mkdir()
    furnish(root)
    assert _look(root, Clock().since()) == []
    return root


def furnish(root: Path) -> None:
    process.run("git", "init", "-q", root / "vendor" / "lib", env=GIT)
    (root / "vendor" / ".claude" / "agents" / "a").mkdir(parents=True)
    for name in ("settings.json", "agents/a/b"):
        (root / "vendor" / ".claude" / name).write_text("{}")
    for name in ("objects", "refs"):
        (root / "parts" / "half" / name).mkdir(parents=True)
    (root / "parts" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "owned").write_text("x")
    (root / "owned").chmod(0o4755)
    last = (root / "owned").lstat().st_ctime_ns
    while Clock().since() <= last:  # until the file systems' clock has advanced
        pass


def _look(root: Path, since: int) -> list[str]:
    names = [".vscode", ".envrc", ".bashrc", ".claude/settings.json", ".claude/agents", "sandbox.yaml"]
    data = ScanScope(roots=(str(root),), names=tuple(ProtectedName(name=each) for each in names))
    return scan.scan_changes(data, "policy", since)


@pytest.mark.parametrize("act", ACTS)
def test_it_is_named(root: Path, act: str) -> None:
    script, path, what = ACTS[act]
    clock = Clock()
    process.run("sh", "-c", script, cwd=root, env=GIT, timeout=60)
    said = _look(root, clock.since())
    start = f"new or changed while it ran: {root}/{path}"
    assert [line for line in said if line.startswith(f"{start}{what}")], said
    assert all(line.isprintable() for line in said)
    assert len(said) <= 2
    (root / "x").chmod(0o700) if act == "one in a closed directory" else None


def test_what_is_used_as_it_was_is_not_named(root: Path) -> None:
    """Commits in an existing repository, files that no program runs, and changed sources."""
    git = "git -c user.name=n -c user.email=e@example.org -c commit.gpgsign=false"
    script = (
        f"cd vendor/lib && echo x >file && {git} add file && {git} commit -qm one && {git} checkout -qb other"
        f" && echo y >file && {git} stash -q; cd ../.."
        " && mkdir -m 1555 .idea .vscode && echo x >code && mkdir -p a/b && mv code a/b"
    )
    clock = Clock()
    process.run("sh", "-c", script, cwd=root, env=GIT, timeout=60)
    assert _look(root, clock.since()) == []


def test_a_run_names_it_once(project: Project) -> None:
    furnish(project.root)
    assert _said(project.run("true").stderr) == []
    ended = project.run("sh", "-c", "git init -q x; echo >.git/description; mkdir .git/x; exit 3")
    assert ended.returncode == 3
    path = f"{project.root}/x/.git"
    said = [f"new or changed while it ran: {path}: a repository: Git runs what its configuration says"]
    assert _said(ended.stderr) == said
    assert _said(project.run("true").stderr) == []


def _said(errors: bytes) -> list[str]:
    """The lines about new files, without other notes."""
    lines = [line.removeprefix("sandwright: ") for line in errors.decode().splitlines()]
    return [line for line in lines if "new or changed" in line or "not everything" in line]


@pytest.mark.parametrize("set_id", [True, False])
def test_a_cache_is_scanned_for_set_id_files_only(root: Path, *, set_id: bool) -> None:
    """No program of the host reads `$CACHE`, where package managers keep repositories of packages."""
    cache = root / "caches" / "p"
    data = ScanScope(
        roots=(str(cache / "cargo"),),
        names=(ProtectedName(name=".github/workflows", tool="GitHub Actions"),),
        set_id=set_id,
        persistent=(str(cache),),
    )
    since = Clock().since()
    for name in ("a/.github/workflows/ci.yml", "b/.git/HEAD", "b/.git/objects/x", "b/.git/refs/x"):
        (cache / "cargo" / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / "cargo" / name).touch()
    (cache / "cargo/b/.git/link").symlink_to("/etc/passwd")
    assert scan.scan_changes(data, "policy", since) == []
    assert (cache / "cargo/b/.git/link").is_symlink()
    (cache / "cargo/owned").touch()
    (cache / "cargo/owned").chmod(0o4755)
    assert len(scan.scan_changes(data, "policy", since)) == set_id


def test_where_it_stops_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MOST_NAMES", 20)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "root"
    (root / "z" / "deep").mkdir(parents=True)
    for number in range(30):
        (root / "z" / f"{number}").touch()
    (root / "tool").touch()
    (root / "tool").chmod(0o4755)
    data = ScanScope(roots=(str(root),))
    said = scan.scan_changes(data, "policy", 0)
    assert said[0].startswith(f"new or changed while it ran: {root}/tool: a set-user-id")
    assert said[1:] == [f"not everything was looked at: there were too many files, from {root}/z on"]


def test_many_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "root"
    for number in range(60):
        (root / f"{number}").mkdir(parents=True)
        (root / f"{number}" / ".envrc").touch()
    (root / "0" / ".git").touch()
    data = ScanScope(roots=(str(root),), names=(ProtectedName(name=".envrc"),))
    said = scan.scan_changes(data, "policy", 0)
    assert len(said) == scan.MOST_LINES + 1
    assert f"{root}/0/.git" in said[0]  # the worst comes first
    assert said[-1] == "new or changed while it ran: 11 more like these"


def test_a_clock_that_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000_000_000]
    monkeypatch.setattr(post_run_start, "_now", lambda: now[0])
    clock = Clock()
    now[0] -= 500_000_000_000
    assert clock.since() <= now[0]


def test_a_directory_that_was_closed_is_looked_into_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are old by then; a stand-in refuses access, because root is refused nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "root" / "hidden").mkdir(parents=True)
    (tmp_path / "root" / "hidden" / ".git").touch()
    data = ScanScope(roots=(str(tmp_path / "root"),))
    scandir = os.scandir

    def refusing(path: str) -> object:
        if path.endswith("hidden"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refusing)
        said = scan.scan_changes(data, "policy", 0)
        assert [line for line in said if "hidden: cannot be read: Permission denied" in line]
    later = Clock().since() + 10**12
    assert [line for line in scan.scan_changes(data, "policy", later) if "hidden/.git" in line]
    assert scan.scan_changes(data, "policy", later) == []


def test_one_that_the_index_has_is_said_to_be_entered(project: Project) -> None:
    """Git enters it by itself, on the host too."""
    (project.root / ".git" / "HEAD").unlink()
    (project.root / ".git" / "config").unlink()
    process.run("git", "init", "-q", project.root, env=GIT)
    git = "git -c user.name=n -c user.email=e@example.org -c commit.gpgsign=false"
    script = (
        f'git init -q sub; {git} -C sub commit -q --allow-empty -m x; git init -q other; cd "$1";'
        " git update-index --add --cacheinfo 160000,$(git -C sub rev-parse HEAD),sub"
    )
    said = _said(project.run("sh", "-c", script, "sh", str(project.root)).stderr)
    path = f"new or changed while it ran: {project.root}/"
    assert said == [
        f"{path}sub/.git: a repository that the index has as an entry: `git status` in {project.root} runs "
        "what its configuration says",
        f"{path}other/.git: a repository: Git runs what its configuration says",
    ]


HOOKS = '{"hooks": {}}'


@pytest.fixture
def agent(project: Project) -> Path:
    """An agent's directory in the home, writable under the policy, with only a login in it."""
    project.policy.write_text("schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT, ~/.claude]}\n")
    (project.home / ".claude").mkdir()
    (
        project.home / ".claude/.credentials.json"
    ).touch()  # denied, which cannot be enforced while it is absent
    return project.home / ".claude"


def _made(errors: bytes) -> list[str]:
    return [line for line in errors.decode().splitlines() if "was made while it ran" in line]


@pytest.mark.parametrize("way", ["removed", "kept"])
def test_a_protected_name_that_was_made_elsewhere_stops_the_next_run(
    project: Project, agent: Path, way: str
) -> None:
    file = agent / "settings.json"
    ended = project.run("sh", "-c", f"echo '{HOOKS}' >'{file}'; exit 3")
    assert ended.returncode == 3
    said = f"sandwright: {file} was made while it ran: programs of the host may run what it says"
    assert _made(ended.stderr) == [said]
    assert _said(ended.stderr) == []  # this is enough
    for _ in range(2):
        ended = project.run("echo", "ran")
        assert (ended.returncode, ended.stdout) == (125, b"")
        assert _made(ended.stderr) == [said]
    if way == "removed":
        file.unlink()
        ended = project.run("sh", "-c", f"echo ran; echo x >'{agent}/code'")
    else:
        command = ended.stderr.decode().partition("or keep it: ")[2].partition("\n")[0]
        process.run("sh", "-c", command)
        ended = project.run("sh", "-c", f"echo ran; echo x >'{file}'")
        assert file.read_text() == f"{HOOKS}\n"  # it is protected now
    assert ended.stdout == b"ran\n", ended.stderr
    assert _made(ended.stderr) == []


@pytest.mark.parametrize("way", ["link", "directory"])
def test_what_hides_a_protected_name_is_found(project: Project, agent: Path, way: str) -> None:
    made = {
        "link": f"ln -s code '{agent}/settings.json'",
        "directory": f"mkdir -m 1555 '{agent}/agents' && ln -s x '{agent}/commands'",
    }
    assert _made(project.run("sh", "-c", made[way]).stderr)
    assert project.run("true").returncode == 125


def test_a_run_that_was_killed_made_one(project: Project, agent: Path) -> None:
    """No scan took place at its end; a second run that starts meanwhile is stopped, too."""
    running = project.start("sh", "-c", f"echo x >'{agent}/settings.json'; echo up; exec sleep 50")
    assert running.stdout is not None
    assert running.stdout.readline() == b"up\n"
    assert project.run("true").returncode == 125
    running.kill()
    running.communicate(timeout=60)
    assert project.run("true").returncode == 125
    (agent / "settings.json").unlink()
    assert project.run("true").returncode == 0
    assert [*(project.home / ".cache/sandwright/sessions/elsewhere").iterdir()] == []


def test_nothing_is_asked_where_nothing_was_made(project: Project, agent: Path) -> None:
    """A second run with the cache does not ask, nor does one for which the name existed before."""
    (agent / "settings.json").write_text(HOOKS)
    for _ in range(2):
        ended = project.run("sh", "-c", f"echo x >'{agent}/code'; echo x >'{agent}/settings.json'; exit 0")
        assert (ended.returncode, _made(ended.stderr)) == (0, [])
    assert (agent / "settings.json").read_text() == HOOKS


@pytest.mark.needs("bwrap")
def test_settings_of_agents_that_name_programs_are_told(project: Project) -> None:
    """They may be created: an agent inside would find a directory in place of a missing file."""
    names = ("opencode.json", "opencode.jsonc", ".aider.conf.yml")
    done = project.run("sh", "-c", f"for each in {' '.join(names)}; do echo >$each; done")
    assert done.returncode == 0, done.stderr
    for name in names:
        told = f"new or changed while it ran: {project.root}/{name}: programs of the host may run"
        assert told in done.stderr.decode()


@pytest.mark.parametrize("possible", [True, False])
def test_a_set_id_file_in_a_directory_that_did_not_change(root: Path, possible: bool) -> None:
    """A file that an earlier scan found is always checked; a new one if the sandbox can make some."""
    (root / "sub").mkdir()
    (root / "sub" / "plain").touch()
    data = ScanScope(roots=(str(root),), names=(ProtectedName(name=".envrc"),), set_id=possible)
    scan.scan_changes(data, "policy", Clock().since())
    clock = Clock()
    while clock.since() <= (root / "sub").lstat().st_ctime_ns:
        clock = Clock()
    (root / "owned").write_text("other")
    (root / "owned").chmod(0o4755)
    (root / "sub" / "plain").chmod(0o4755)
    said = "\n".join(scan.scan_changes(data, "policy", clock.since()))
    assert f"{root}/owned: a set-user-id" in said
    assert (f"{root}/sub/plain: a set-user-id" in said) is possible


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../../x", "config", "hooks/pre-commit", "Config", "../x"]
)
def test_a_link_that_git_would_write_through_is_removed(root: Path, target: str) -> None:
    git = root / "vendor/lib/.git"
    (git / "before").symlink_to(target)
    last = (git / "before").lstat().st_ctime_ns
    while Clock().since() <= last:
        pass
    clock = Clock()
    (git / "COMMIT_EDITMSG").symlink_to(target)
    (git / "lock").symlink_to("ada@host.17")
    said = _look(root, clock.since())
    removed = f"{git}/COMMIT_EDITMSG: a link in a repository was removed, which led to {target}"
    assert f"new or changed while it ran: {removed}" in said
    assert f"new or changed while it ran: {git}/lock{LINK}: Git may write through it" in said
    assert len(said) == 2
    names = {path.name for path in git.iterdir() if path.is_symlink()}
    assert names == {"before", "lock"}


def test_a_new_link_in_a_known_bare_repository_is_removed(root: Path) -> None:
    """The repository is deeper than protection reaches, so a link can be made."""
    store = root / "a/b/c/d/store"
    process.run("git", "init", "-q", "--bare", store, env=GIT)
    assert len(_look(root, 0)) > 0
    clock = Clock()
    for name in ("MERGE_MSG", "refs/heads/new"):
        (store / name).symlink_to("/etc/passwd")
    (root / "a/MERGE_MSG").symlink_to("/etc/passwd")
    said = _look(root, clock.since())
    assert len(said) == 2
    assert all("a link in a repository was removed" in line for line in said)
    assert [path for path in root.rglob("*") if path.is_symlink()] == [root / "a/MERGE_MSG"]


def test_links_stay_below_a_project_that_is_a_repository(root: Path) -> None:
    """A policy may permit it: its work tree has links that mean nothing to Git."""
    process.run("sh", "-c", BARE.replace("x/", "./"), cwd=root, env=GIT)
    clock = Clock()
    (root / "node_modules").mkdir()
    for name in ("node_modules/tool", "tool"):
        (root / name).symlink_to("/usr/bin/tool")
    said = _look(root, clock.since())
    assert [line for line in said if "tool" in line] == [
        f"new or changed while it ran: {root}/tool{LINK}: Git may write through it"
    ]
    assert (root / "tool").is_symlink()
    assert (root / "node_modules/tool").is_symlink()


NEW_WORKDIR = (
    "config",
    "refs",
    "logs/refs",
    "objects",
    "info",
    "hooks",
    "packed-refs",
    "remotes",
    "rr-cache",
    "svn",
)
"""The files that the script git-new-workdir of Git's contrib/ links to."""


def test_a_second_work_tree_by_links_stays(root: Path) -> None:
    git, new = root / "vendor/lib/.git", root / "wd/.git"
    data = ScanScope(roots=(str(root),), git=(str(git),))
    clock = Clock()
    (new / "logs").mkdir(parents=True)
    (new / "HEAD").write_text("ref: refs/heads/main\n")
    for name in NEW_WORKDIR:
        (new / name).symlink_to(git / name)
    bad = {"MERGE_MSG": git / "config", "COMMIT_EDITMSG": git / "hooks/pre-commit", "index": root / "index"}
    for name, target in bad.items():
        (new / name).symlink_to(target)
    said = "\n".join(scan.scan_changes(data, "policy", clock.since()))
    assert {name for name in NEW_WORKDIR if (new / name).is_symlink()} == {*NEW_WORKDIR}
    assert not [name for name in bad if os.path.lexists(new / name)]
    assert all(f"{new}/{name}{LINK} was removed" in said for name in bad)


def test_only_the_link_that_was_seen_is_removed(root: Path) -> None:
    git = root / "vendor/lib/.git"
    link = git / "COMMIT_EDITMSG"
    link.symlink_to("/etc/passwd")
    seen = link.lstat()
    (git / "second").symlink_to("/etc/passwd")
    (git / "second").replace(link)
    assert remove_link(str(link), seen, str(git)) is None
    assert link.is_symlink()
    seen = link.lstat()
    git.rename(git.with_name("moved"))
    git.symlink_to("moved")
    assert remove_link(str(link), seen, str(git)) is None
    assert link.is_symlink()
    git.unlink()
    git.with_name("moved").rename(git)
    assert remove_link(str(link), seen, str(git)) == "/etc/passwd"
    assert not link.is_symlink()
