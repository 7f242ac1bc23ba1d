"""`filesystem.home`: the sandbox's own home directory, stored with the project or new in each run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandwright.policy.facts import persistent_directories, private_home
from sandwright.policy.load import presets
from session.conftest import WAIT, Project
from session.test_run_containers import busybox_root

POLICY = """schema: 1
method: {}
{}filesystem:
  home: {}
  read: [/, ~/.config/app]
  write: [$PROJECT]
  deny: [~/.config/app/key]
"""
METHODS = [
    pytest.param("bwrap", marks=pytest.mark.needs("bwrap")),
    pytest.param("oci", marks=pytest.mark.needs("runc", "busybox")),
    pytest.param("gvisor", marks=pytest.mark.needs("runsc", "busybox")),
]
LOOK = 'cat ~/.note ~/.netrc ~/secret; cat ~/.config/app/key ~/.config/app/settings; echo "$0" > ~/.note'


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest, project: Project, tmp_path: Path) -> str:
    if request.param != "bwrap":
        root = tmp_path / "root"
        root.mkdir()
        busybox_root(root)
        project.environment["SANDWRIGHT_ROOTFS"] = str(root)
    (project.home / "secret").write_text("secret")
    (project.home / ".netrc").write_text("secret")
    (project.home / ".config/app").mkdir(parents=True)
    (project.home / ".config/app/key").write_text("secret")
    (project.home / ".config/app/settings").write_text("settings\n")
    return str(request.param)


def _set(project: Project, method: str, home: str) -> None:
    image = "" if method == "bwrap" else "image: small\nenvironment: {set: {PATH: /bin}}\n"
    project.policy.write_text(POLICY.format(method, image, home))


def _kept(project: Project) -> Path:
    return Path(private_home(str(project.home), str(project.root)))


def test_a_private_home_is_kept_and_shows_nothing_of_the_users(project: Project, method: str) -> None:
    _set(project, method, "private")
    for found, word in ((b"", "first"), (b"first\n", "second")):
        ended = project.run("sh", "-c", LOOK, word)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout == found + b"settings\n", ended.stderr
    assert not (project.home / ".note").exists()
    assert (_kept(project) / ".note").read_text() == "second\n"
    removed = project.sandwright("cleanup", "--caches")
    assert (removed.returncode, f"removed home directory {_kept(project)}" in removed.stdout.decode()) == (
        0,
        True,
    )
    assert not _kept(project).exists()


def test_a_throwaway_home_is_empty_in_each_run(project: Project, method: str) -> None:
    _set(project, method, "throwaway")
    for word in ("first", "second"):
        ended = project.run("sh", "-c", LOOK, word)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout == b"settings\n", ended.stderr
    assert not (project.home / ".note").exists()
    assert not _kept(project).exists()


@pytest.mark.needs("bwrap")
def test_names_that_the_default_preset_denies_can_be_written(project: Project) -> None:
    """They belong to the sandbox: programs keep their settings there."""
    project.policy.write_text("schema: 1\nmethod: bwrap\nextends: [own-home]\n")
    script = "mkdir ~/.ssh && echo x > ~/.npmrc && echo x > ~/.bashrc && cat ~/.npmrc"
    ended = project.run("sh", "-c", script)
    assert (ended.returncode, ended.stdout) == (0, b"x\n"), ended.stderr
    assert not any((project.home / name).exists() for name in (".ssh", ".npmrc", ".bashrc"))


@pytest.mark.needs("bwrap")
def test_secrets_in_the_directories_of_tools_are_not_shown(project: Project) -> None:
    secrets = [".local/share/uv/credentials/x", ".dotnet/corefx/x509stores/my/x", ".npm-global/etc/npmrc"]
    for name in (*secrets, ".dotnet/sdk/x"):
        (project.home / name).parent.mkdir(parents=True, exist_ok=True)
        (project.home / name).write_text(f"{name}\n")
    project.policy.write_text("schema: 1\nmethod: bwrap\nextends: [own-home]\n")
    ended = project.run("sh", "-c", 'cd && cat "$@"', "sh", *secrets, ".dotnet/sdk/x")
    assert ended.stdout == b".dotnet/sdk/x\n", ended.stderr


@pytest.mark.needs("bwrap")
def test_a_link_in_place_of_the_kept_home_is_refused(project: Project) -> None:
    project.policy.write_text("schema: 1\nmethod: bwrap\nfilesystem: {home: private}\n")
    (project.home / "secret").mkdir()
    _kept(project).parent.mkdir(parents=True)
    _kept(project).symlink_to(project.home / "secret")
    ended = project.run("sh", "-c", "echo x > ~/x")
    assert ended.returncode == 125, ended.stderr
    assert not (project.home / "secret/x").exists()


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("name", ["p", ".gitconfig"])
def test_no_mount_point_is_made_through_a_link_of_an_earlier_run(project: Project, name: str) -> None:
    """bubblewrap follows a link to /oldroot, where the host's files are while it makes the mounts."""
    (project.home / ".gitconfig").touch()
    victim = project.home / "made"
    project.policy.write_text("schema: 1\nmethod: bwrap\nextends: [own-home]\n")
    (_kept(project) / name).parent.mkdir(parents=True)
    (_kept(project) / name).symlink_to(f"/oldroot{victim}")
    ended = project.run("true")
    assert ended.returncode == 125, ended.stderr
    assert f"{_kept(project)}/{name} is a symbolic link".encode() in ended.stderr
    assert not victim.exists()
    (_kept(project) / name).unlink()
    assert project.run("true").returncode == 0


def test_a_rendered_launcher_mounts_no_other_directory_as_the_home(project: Project, method: str) -> None:
    """gVisor's mounts can't be compared, only the host's paths can."""
    _set(project, method, "private")
    assert project.run("true").returncode == 0
    assert project.sandwright("render").returncode == 0
    _kept(project).rename(_kept(project).with_name("moved"))
    _kept(project).symlink_to(project.home)
    ended = subprocess.run(
        [project.root / ".sandbox" / method / "launch", "sh", "-c", "cat ~/secret; echo x > ~/made"],
        cwd=project.root,
        env=project.environ,
        capture_output=True,
        timeout=WAIT,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (125, b""), ended.stderr
    assert f"{_kept(project)} became a symbolic link".encode() in ended.stderr
    assert not (project.home / "made").exists()


@pytest.mark.needs("bwrap")
def test_a_program_that_writes_the_cache_does_not_reach_it(project: Project) -> None:
    """It could exchange it with a link while another sandbox of the project starts."""
    project.policy.write_text(
        "schema: 1\nmethod: bwrap\nfilesystem: {home: private, write: [$PROJECT, $CACHE]}\n"
    )
    cache = Path(persistent_directories(str(project.home), str(project.root))["CACHE"])
    cache.mkdir(parents=True)
    script = 'echo x > ~/note; echo x > "$1/reached"; ls -A "$1"'
    ended = project.run("sh", "-c", script, "sh", str(cache))
    assert (ended.returncode, ended.stdout) == (0, b"reached\n"), ended.stderr
    assert (_kept(project) / "note").exists()
    assert not _kept(project).is_relative_to(cache)


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("home", ["private", "throwaway"])
def test_own_state_is_not_in_it(project: Project, home: str) -> None:
    project.policy.write_text(f"schema: 1\nmethod: bwrap\nfilesystem: {{home: {home}}}\n")
    script = "find ~ -not -path '*/p' -not -path '*/p/*'; test ! -e ~/.cache/sandwright"
    ended = project.run("sh", "-c", script)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert b"sandwright" not in ended.stdout.replace(str(project.home).encode(), b"")


@pytest.mark.needs("bwrap")
def test_the_preset_reports_no_directories_that_a_machine_lacks(project: Project) -> None:
    """It lists the usual directories of tools; directories that a user lists are reported."""
    project.policy.unlink(missing_ok=True)
    ended = project.sandwright("run", "--preset", "own-home", "--", "true")
    assert ended.returncode == 0, ended.stderr
    assert b"own-home" in ended.stderr
    assert b"grants nothing" not in ended.stderr
    ended = project.sandwright("run", "--set", "filesystem.read=[/usr, /nowhere]", "--", "true")
    assert b"/nowhere grants nothing" in ended.stderr


@pytest.mark.needs("bwrap")
def test_caches_are_in_the_home(project: Project) -> None:
    """Without the preset, `build` directs them to the temporary directory of the run."""
    section = presets(("build",))[-1].policy.environment
    names = list((section.set if section else None) or ())
    words = ("--set", "network.mode=none", "--", "sh", "-c", f"env | grep -E '^({'|'.join(names)})='")
    project.policy.unlink(missing_ok=True)
    ended = project.sandwright("run", "--preset", "build", *words)
    assert len(ended.stdout.splitlines()) == len(names) > 0, ended.stderr
    ended = project.sandwright("run", "--preset", "build", "--preset", "own-home", *words)
    assert (ended.returncode, ended.stdout) == (1, b""), ended.stderr
