"""sandwright's own state is closed at every path at which a mount or a link shows it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandwright.mount_aliases import MountEntry, MountTable, join_aliases, split_aliases
from session.conftest import WAIT, Project
from support import labworker

ATTACK = """
for each in "$@"; do
    cat "$each/render-cache" 2>/dev/null && echo "READ $each"
    touch "$each/planted" 2>/dev/null && echo "WROTE $each"
done; true
"""


@pytest.fixture
def person(person: Project) -> Project:
    """The same project, with each policy approved."""
    person.environment["SANDWRIGHT_TRUST"] = "1"
    return person


def mounted(shown: Path, alias: Path, *words: str) -> list[str]:
    """A command that runs another one with a directory mounted a second time."""
    enter, drop = labworker.mount_namespace()
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    return [*enter, "sh", "-c", script, "sh", str(shown), str(alias), *drop, *words]


def run_mounted(
    project: Project, shown: Path, alias: Path, *words: str
) -> subprocess.CompletedProcess[bytes]:
    """`sandwright run`, with a directory mounted a second time."""
    return subprocess.run(
        mounted(shown, alias, *project.command, "run", "--", *words),
        cwd=project.root,
        env=project.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WAIT,
        check=False,
    )


def _writing(alias: Path) -> str:
    """A policy that makes a second mount of the home writable."""
    gap = "{feature: filesystem.absent-elsewhere, method: bwrap, reason: secrets that are not there}"
    return f"schema: 1\nmethod: bwrap\nfilesystem: {{write: [$PROJECT, {alias}]}}\naccept_gaps: [{gap}]\n"


@pytest.mark.needs("bwrap", "unshare")
@pytest.mark.parametrize(
    ("shown", "status"), [(".", 0), (".cache", 0), (".local/state/sandwright/keys", 125)]
)
def test_own_state_at_a_second_mount(person: Project, shown: str, status: int) -> None:
    """This holds even for a rendering from before the mount. A grant of the state is refused."""
    alias = person.home.parent / "alias"
    alias.mkdir()
    person.policy.write_text(_writing(alias))
    reserved = (".local/state/sandwright/keys", ".cache/sandwright/sessions", ".config/sandwright")
    for name in reserved:
        (person.home / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    paths = [alias / Path(name).relative_to(shown) for name in reserved if Path(name).is_relative_to(shown)]
    assert paths
    for _ in range(2):
        assert person.run("true").returncode == 0
        ended = run_mounted(person, person.home / shown, alias, "sh", "-c", ATTACK, "sh", *map(str, paths))
        assert (ended.returncode, ended.stdout) == (status, b""), ended.stderr
        assert status == 0 or b"no policy can grant it" in ended.stderr


LATER = """
mount --make-rshared /
"$@" &
until [ -e up ] || ! kill -0 $!; do sleep 0.05; done
mount --bind "$HOME/.ssh" sub
touch go
wait $!
"""
GAPS = ("filesystem.attributes", "filesystem.protect", "process.kernel")


@pytest.mark.needs("bwrap", "unshare")
@pytest.mark.parametrize(("method", "read"), [("bwrap", b""), ("landlock", b"hidden")])
def test_a_mount_of_the_host_appears_under_landlock_alone(person: Project, method: str, read: bytes) -> None:
    """It happens during a run, even if the host's mounts are shared. docs/threats.md says so."""
    accepted = ", ".join(f"{{feature: {name}, method: landlock, reason: a test}}" for name in GAPS)
    person.policy.write_text(
        f"schema: 1\nmethod: {method}\nfilesystem: {{write: [$PROJECT]}}\naccept_gaps: [{accepted}]\n"
    )
    (person.home / ".ssh").mkdir()
    (person.home / ".ssh/word").write_text("hidden")
    (person.root / "sub").mkdir()
    inside = "cat ~/.ssh/word; touch up; until [ -e go ]; do sleep 0.05; done; cat sub/word"
    enter, drop = labworker.mount_namespace()
    ended = subprocess.run(
        [*enter, "sh", "-c", LATER, "sh", *drop, *person.command, "run", "--", "sh", "-c", inside],
        cwd=person.root,
        env=person.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WAIT,
        check=False,
    )
    assert (person.root / "up").exists(), ended.stderr
    assert ended.stdout == read, ended.stderr


@pytest.mark.needs("bwrap", "unshare")
def test_the_installation_at_a_second_mount(person: Project) -> None:
    alias = person.home.parent / "alias"
    alias.mkdir()
    person.policy.write_text(f"schema: 1\nmethod: bwrap\nfilesystem: {{write: [$PROJECT, {alias}]}}\n")
    ended = run_mounted(person, Path(sys.prefix).parent, alias, "touch", f"{alias}/x", f"{alias}/.venv/x")
    (Path(sys.prefix).parent / "x").unlink(missing_ok=True)
    assert b"Read-only file system" in ended.stderr, ended.stderr


ABSENT = (".config/sandwright", ".config/containers", ".docker", ".local/share/sandwright")


@pytest.mark.needs("bwrap", "unshare")
def test_what_is_missing_is_not_made_at_a_second_mount(person: Project) -> None:
    """A policy or approvals that a sandbox had made would be the user's in the next run."""
    alias = person.home.parent / "alias"
    alias.mkdir()
    person.policy.write_text(_writing(alias))
    made = "; ".join(f"mkdir -p {alias}/{name}; touch {alias}/{name}/made" for name in ABSENT)
    script = f"touch {alias}/x; {made}"
    ended = run_mounted(person, person.home, alias, "sh", "-c", script)
    assert (person.home / "x").exists(), ended.stderr
    assert [name for name in ABSENT if (person.home / name / "made").exists()] == [], ended.stderr


LINKS = (".docker/config.json", ".config/containers/containers.conf", ".config/sandwright/trust")


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("missing", [False, True])
def test_what_a_link_in_reserved_directories_leads_to_is_not_written(
    person: Project, *, missing: bool
) -> None:
    """Tools like stow make such links into a repository, which may be the project."""
    (person.root / "dotfiles").mkdir()
    targets = [person.root / "dotfiles" / Path(name).name for name in LINKS]
    for name, target in zip(LINKS, targets, strict=True):
        if not missing:
            target.touch()
        (person.home / name).parent.mkdir(mode=0o700, parents=True)
        (person.home / name).symlink_to(target)
    written = "; ".join(f"(echo made > {target})" for target in targets)
    ended = person.run("sh", "-c", f"touch dotfiles/other; {written}; touch dotfiles/last")
    assert (person.root / "dotfiles/other").exists(), ended.stderr
    assert (person.root / "dotfiles/last").exists(), ended.stderr
    for target in targets:
        assert not target.is_file() or target.read_text() == "", ended.stderr


TABLE = [
    MountEntry("8:1", "/", "/", "ext4"),
    MountEntry("0:5", "/", "/proc", "ext4"),
    MountEntry("8:2", "/", "/data", "ext4"),
    MountEntry("8:2", "/home", "/home", "ext4"),
    MountEntry("8:2", "/home/u/.cache/x", "/mnt/part", "ext4"),
    MountEntry("8:2", "/home/u/.cache", "/hidden/cache", "ext4"),
    MountEntry("0:6", "/", "/hidden", "ext4"),
    MountEntry("8:2", "/other", "/mnt/other", "ext4"),
]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/u/.cache", ["/data/home/u/.cache", "/mnt/part", "/hidden/cache"]),
        ("/data/home/u", ["/home/u", "/mnt/part", "/hidden/cache"]),
        ("/home/u/.cache/x/y", ["/data/home/u/.cache/x/y", "/mnt/part/y", "/hidden/cache/x/y"]),
        ("/home/u/.cachex", ["/data/home/u/.cachex"]),
        ("/etc/x", []),
        ("/hidden/cache", []),
    ],
)
def test_other_paths_of_a_directory(path: str, expected: list[str]) -> None:
    assert MountTable(TABLE).aliases(path) == expected


@pytest.mark.parametrize(
    "aliases", [[], ["/"], ["/a"], ["/", "/a"], ["/a", "/"], ["/", "/"], ["/a/b\n", "/\n/c", "/d e"]]
)
def test_other_paths_as_one_text(aliases: list[str]) -> None:
    assert split_aliases(join_aliases(aliases)) == aliases
