"""Accounts are made and removed by plans that first state their steps.

Tests of methods/user/setup.py.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import HostError, UsageError
from sandwright.methods.user import sharing
from sandwright.methods.user.render import account_for
from sandwright.methods.user.setup import SharedTrees, plan_account, plan_removal
from sandwright.methods.user.sharing import read_acl
from support.locks import accounts_change
from support.ownedprojects import Project


def _is_there(project: Project) -> bool:
    return project.account.name in {each.pw_name for each in pwd.getpwall()}


def test_nothing_is_done_before_a_yes(made: Callable[[], Project]) -> None:
    project = made()
    before = {path: path.lstat().st_mode for path in (project.root, *project.root.rglob("*"))}
    own = Path(project.account.home).parent
    said = project.sandwright("account-setup")
    assert said.returncode == 3
    assert said.stdout.splitlines() == [
        f"create the system account {project.account.name}, without a password or a shell",
        f"create {own}: its home (0700), a directory for the root of its runs, and record.json",
        f"close {project.root} to all others (mode o-rwx), other projects' accounts among them",
        f"share {project.root} and all in it with it (entries rwX, also for new files)",
    ]
    assert not _is_there(project)
    assert {path: path.lstat().st_mode for path in before} == before
    said = project.sandwright("run", "--", "true")
    assert said.returncode == 125
    assert (
        f"{project.root} has no account here; `sandwright account-setup` shows how to make one" in said.stderr
    )


def test_it_is_made_once_and_goes_without_a_trace(made: Callable[[], Project]) -> None:
    project = made()
    before = {
        path: (path.lstat().st_mode, path.lstat().st_uid) for path in (project.root, *project.root.rglob("*"))
    }
    assert project.sandwright("account-setup", "--yes").returncode == 0
    account = pwd.getpwnam(project.account.name)
    assert (account.pw_shell, account.pw_dir) == ("/usr/sbin/nologin", "/nonexistent")
    assert project.root.stat().st_mode & 0o007 == 0
    said = project.sandwright("account-setup")
    assert (said.returncode, said.stdout) == (0, f"{account.pw_name} is there, and all is shared with it\n")
    ran = project.sandwright(
        "run",
        "--",
        "sh",
        "-c",
        "mkdir by && echo x >by/account && chmod 2755 by/account && git status -s 2>&1",
    )
    assert ran.returncode in (0, 128), ran.stderr
    assert "dubious" not in ran.stdout
    assert (project.root / "by/account").stat().st_uid == account.pw_uid
    said = project.sandwright("account-remove")
    assert said.returncode == 3
    assert _is_there(project)
    assert project.sandwright("account-remove", "--yes").returncode == 0
    assert not _is_there(project)
    assert not Path(project.account.home).parent.exists()
    assert (project.root / "by/account").stat().st_uid == os.geteuid()
    assert (project.root / "by/account").stat().st_mode & 0o7000 == 0, (
        "no program becomes its owner's by that"
    )
    assert {path: (path.lstat().st_mode, path.lstat().st_uid) for path in before} == before
    assert all(not read_acl(path).users for path in project.root.rglob("*") if not path.is_symlink())


def test_no_home_that_the_host_obeys(made: Callable[[], Project]) -> None:
    """With a run's `.ssh/authorized_keys` in the home of passwd(5), sshd would accept a stranger."""
    project = made()
    project.set_up()
    with accounts_change():
        process.run("usermod", "--home", project.account.home, project.account.name)
    ran = project.sandwright("run", "--", "true")
    assert (ran.returncode, "account-setup" in ran.stderr) == (125, True), ran.stderr
    assert "programs of the host obey files there" in ran.stderr
    said = project.sandwright("account-setup", "--yes")
    assert said.stdout.startswith(f"give {project.account.name} the home /nonexistent in /etc/passwd")
    assert pwd.getpwnam(project.account.name).pw_dir == "/nonexistent"
    ran = project.sandwright("run", "--", "sh", "-c", 'mkdir "$HOME/.ssh" && echo "$HOME"')
    assert (ran.returncode, ran.stdout) == (0, f"{project.account.home}\n"), ran.stderr


def test_a_way_to_the_project_is_opened_and_closed(made: Callable[[], Project]) -> None:
    """The project lies below a home that other users cannot enter, as most homes are."""
    project = made()
    inner = Project(project.home / "deep/app", project.home)
    inner.root.mkdir(parents=True)
    (inner.root / "sandbox.yaml").write_text((project.root / "sandbox.yaml").read_text())
    plan = plan_account(inner.account, SharedTrees(inner.root, (), os.geteuid()))
    assert f"let it pass through {project.home}, without listing it (an entry --x)" in plan.describe()
    try:
        with accounts_change():
            plan.execute()
        said = inner.run(
            "sh",
            "-c",
            f"cat sandbox.yaml >/dev/null && echo in; ls {project.home} || cat {project.home}/.ssh/config",
        )
        assert said.stdout == b"in\n"
    finally:
        with accounts_change():
            plan_removal(inner.account).execute()
    assert project.home.stat().st_mode & 0o777 == 0o700
    assert not read_acl(project.home).users


def test_who_owns_a_project_is_given_nothing_else(
    made: Callable[[], Project], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between `find` and `chown`, a link replaces a directory: the account would get another user's file."""
    project = made()
    project.set_up()
    root, other = project.root, tmp_path / "other"
    other.mkdir()
    for directory in (root / "d", root / "e"):
        directory.mkdir()
        (directory / "f").touch()
        os.chown(directory / "f", project.uid, project.uid)
    for path in (other / "f", other / "g"):
        path.touch()
        os.chown(path, 4711, 4711)
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin/chown"
    swap = f"[ ! -d {root}/d ] || {{ mv {root}/d {root}/was; ln -s {other} {root}/d; }}"
    wrapper.write_text(f'#!/bin/sh\n{swap}\nln -f {other}/g {root}/e/f\nexec /usr/bin/chown "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    with accounts_change():
        plan_removal(project.account).execute()
    assert [(other / name).stat().st_uid for name in "fg"] == [4711, 4711]


def test_none_goes_while_it_runs(project: Project) -> None:
    import subprocess  # noqa: PLC0415

    launcher = project.rendered()
    with subprocess.Popen(
        [launcher, "sh", "-c", "echo begun; exec cat"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=project.root, env=project.environ,
    ) as started:  # fmt: skip
        assert started.stdout is not None
        assert started.stdin is not None
        assert started.stdout.readline() == b"begun\n"
        with pytest.raises(
            HostError, match=f"{project.account.name} runs processes [0-9]+: end its sessions first"
        ):
            plan_removal(project.account)
        started.stdin.close()
    assert _is_there(project)


@pytest.mark.parametrize("path", ["/", "/tmp", "/root"], ids=["root", "top", "home"])
def test_too_much_is_not_shared(path: str) -> None:
    with pytest.raises(UsageError, match="is too much to share with an account"):
        plan_account(account_for(path, 0), SharedTrees(Path(path), (), 0))


def test_there_is_none_to_remove(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no account sandwright-"):
        plan_removal(account_for(str(tmp_path), 4711))


def test_what_a_strangers_policy_lists_is_not_shared_without_a_word(
    made: Callable[[], Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = made()
    monkeypatch.setenv("SANDWRIGHT_TRUST", "")
    other = project.home / "other"
    other.mkdir()
    policy = project.root / "sandbox.yaml"
    policy.write_text(policy.read_text().replace("write: [$PROJECT]", "write: [$PROJECT, ~/other]"))
    assert f"share {other}" in project.sandwright("account-setup").stdout
    said = project.sandwright("account-setup", "--yes")
    assert (said.returncode, "writes ~/other" in said.stderr) == (64, True), said.stderr
    assert not _is_there(project)
    assert not read_acl(other).users
    assert project.sandwright("trust", "--yes").returncode == 0
    said = project.sandwright("account-setup", "--yes")
    assert said.returncode == 0, said.stderr
    assert read_acl(other).users.keys() >= {project.uid}


def test_a_cache_is_made_with_it_and_stays_in_reach(made: Callable[[], Project]) -> None:
    """The cache lies below a closed home, and works in every run: no step closes it to the account again."""
    project = made()
    policy = project.root / "sandbox.yaml"
    policy.write_text(policy.read_text() + "cache: [pip]\n")
    said = project.sandwright("account-setup", "--yes")
    assert said.returncode == 0, said.stderr
    state = project.home / ".local/state/sandwright"
    [own] = (state / "caches").iterdir()
    (own.parent / "of-another").mkdir(0o700)
    script = "echo $1 >>$PIP_CACHE_DIR/kept && tail -n 1 $PIP_CACHE_DIR/kept; ls $2"
    for number in ("1", "2", "3"):
        if number == "3":
            (own / "pip").chmod(0o700)  # this closes it, and the message says how to open it
            assert project.sandwright("account-setup").returncode == 3
            assert project.sandwright("account-setup", "--yes").returncode == 0
        ran = project.sandwright("run", "--", "sh", "-c", script, "sh", number, str(own.parent))
        assert ran.stdout.split() == [number, own.name], ran.stderr
    assert project.sandwright("account-setup").returncode == 0
    assert project.sandwright("account-remove", "--yes").returncode == 0
    assert (own / "pip/kept").stat().st_uid == os.geteuid()
    assert own.stat().st_mode & 0o077 == 0
    assert not any(read_acl(path).users for path in (own, own / "pip", state, project.home))


def test_the_account_has_no_rights_over_our_own_state(made: Callable[[], Project]) -> None:
    """This holds outside its mounts, too: for existing state, and for state that is made there again."""
    project = made()
    policy = project.root / "sandbox.yaml"
    grants = "write: [$PROJECT, ~/.cache, ~/.config, ~/.local]"
    policy.write_text(policy.read_text().replace("write: [$PROJECT]", grants))
    (project.home / ".config").mkdir()
    said = project.sandwright("account-setup", "--yes")
    assert said.returncode == 0, said.stderr
    uid = project.uid
    own = [".cache/sandwright", ".cache/sandwright/sessions", ".config/sandwright", ".config/containers"]
    own += [".local/state/sandwright/keys", ".local/share/containers"]
    try:
        for again in (False, True):
            if again:
                shutil.rmtree(project.home / ".cache/sandwright")
                assert project.sandwright("explain", "read", "/usr").returncode == 0
            (project.home / ".cache/free").write_text("free")
            for name, shown in ((".cache", True), *((each, False) for each in own)):
                ended = process.run(
                    *("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"),
                    *("sh", "-c", 'ls "$0" || touch "$0/x"', project.home / name),
                    check=False,
                )
                assert (ended.status == 0) is shown, (name, again, ended.stderr)
        (project.home / ".config/sandwright/policy.yaml").write_text("schema: 1\n")
        sharing.share(project.home / ".config/sandwright", uid)
        said = project.sandwright("account-setup", "--yes")
        assert f"revoke its rights over {project.home}/.config/sandwright" in said.stdout
        assert not read_acl(project.home / ".config/sandwright/policy.yaml").users
    finally:
        assert project.sandwright("account-remove", "--yes").returncode == 0


def test_nothing_is_written_where_the_account_says(made: Callable[[], Project], tmp_path: Path) -> None:
    """Its home is its own: a command may put a link in place of a file that root writes again."""
    project = made()
    project.set_up()
    elsewhere, more = tmp_path / "elsewhere", tmp_path / "more"
    elsewhere.mkdir()
    more.mkdir()
    assert (
        project.run("sh", "-c", f"ln -sfT {elsewhere} ~/.gitconfig && readlink ~/.gitconfig").returncode == 0
    )
    with accounts_change():
        plan_account(project.account, SharedTrees(project.root, (more,), os.geteuid())).execute()
    assert list(elsewhere.iterdir()) == []
    config = Path(project.account.home) / ".gitconfig"
    assert not config.is_symlink()
    assert str(project.root) in config.read_text()


def test_rights_over_what_the_policy_listed_before_are_revoked(
    made: Callable[[], Project], tmp_path: Path
) -> None:
    """The next account on this machine may get the number of a removed one."""
    project = made()
    outer, inner = tmp_path / "outer", tmp_path / "outer/inner"
    inner.mkdir(parents=True)
    (outer / "file").touch(0o600)
    (inner / "file").touch(0o600)
    for trees in ((outer,), (inner,), (outer, inner), ()):
        with accounts_change():
            plan_account(project.account, SharedTrees(project.root, trees, os.geteuid())).execute()
        uid = project.uid
        shared = [read_acl(each / "file").permissions(uid) for each in (outer, inner)]
        assert shared == [6 if outer in trees else None, 6 if trees else None], trees
    again = plan_account(project.account, SharedTrees(project.root, (), os.geteuid()))
    assert again.steps == ()
