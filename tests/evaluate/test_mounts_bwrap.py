"""Mount plans in the kernel: a real sandbox agrees with the evaluator about each path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.evaluate.mounts import Mounts
from sandwright.policy.collect import collect_facts
from sandwright.policy.live_entries import observe
from sandwright.render.mounts import Mount, MountPlan, mount_plan

PROBE = r"""
for path; do
  read=no write=no
  cat -- "$path" >/dev/null 2>&1 && read=yes
  (: >>"$path") 2>/dev/null && write=yes
  printf '%s %s %s\n' "$read" "$write" "$path"
done
"""
MOVE = 'mv -T -- "$1" "$1.moved" 2>&1 && echo moved'


def _arguments(plan: MountPlan) -> Iterator[str]:
    """The arguments of bwrap that this test needs."""
    for mount in plan.mounts:
        yield from _mount(mount)
    for mount in plan.mounts:
        if mount.entry == "directory" and mount.kind in ("mask", "tmpfs") and not mount.writable:
            yield from ("--remount-ro", mount.target)


def _mount(mount: Mount) -> tuple[str, ...]:
    match mount.kind:
        case "bind":
            return ("--bind" if mount.writable else "--ro-bind", mount.source, mount.target)
        case "symlink":
            return ("--symlink", mount.source, mount.target)
        case "mask" if mount.entry != "directory":
            return ("--ro-bind", "/dev/null", mount.target)
        case "tmpfs" | "mask":
            return ("--tmpfs", mount.target)
        case "dev" | "proc":
            return (f"--{mount.kind}", mount.target)


def _inside(plan: MountPlan, script: str, *arguments: str) -> str:
    argv = [
        "bwrap",
        "--unshare-all",
        "--die-with-parent",
        *_arguments(plan),
        "sh",
        "-c",
        script,
        "sh",
        *arguments,
    ]
    return process.run(*argv, timeout=30, check=False).text


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a project, a secret and a repository."""
    home = tmp_path / "home"
    for name in (
        ".ssh/id",
        "other/file",
        "p/src/deep/file",
        "p/locked/file",
        "p/hidden/open/file",
        "p/.git/hooks/x",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("content")
    for name in ("p/.env", "p/.git/config", "p/.git/HEAD", "p/hidden/file", "p/README", ".bashrc"):
        (home / name).write_text("content")
    (tmp_path / "scratch").mkdir()
    (home / "p" / "alias").symlink_to("../.ssh")
    return home


ACCESS = {
    "p/README": ("yes", "yes"),
    "p/src/deep/file": ("yes", "yes"),
    "p/locked/file": ("yes", "no"),
    "p/.env": ("no", "no"),
    "p/hidden/file": ("no", "no"),
    "p/hidden/open/file": ("yes", "yes"),
    "p/.git/HEAD": ("yes", "yes"),
    "p/.git/config": ("yes", "no"),
    "p/.git/hooks/x": ("yes", "no"),
    "p/alias/id": ("no", "no"),
    "other/file": ("yes", "no"),
    ".ssh/id": ("no", "no"),
    ".bashrc": ("yes", "no"),
}
FILES = """\
  write: [$PROJECT, $PROJECT/hidden/open]
  readonly: [$PROJECT/locked]
  deny: [$PROJECT/.env, $PROJECT/hidden]
"""


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    ("read", "changes"),
    [("[/]", {}), ("[~]", {}), ("[]", {"other/file": ("no", "no"), ".bashrc": ("no", "no")})],
    ids=["all", "home", "nothing"],
)
def test_the_kernel_agrees(home: Path, read: str, changes: dict[str, tuple[str, str]]) -> None:
    policy = Policy.from_text(f"filesystem:\n  read: {read.replace('~', '$HOME')}\n{FILES}")
    facts = collect_facts(
        policy, project=home / "p", tmp=f"{home.parent}/scratch", environ={"HOME": str(home)}
    )
    plan = mount_plan(policy.resolve(facts), root="host")
    paths = [f"{home}/{name}" for name in ACCESS]
    lines = [line.split(" ", 2) for line in _inside(plan, PROBE, *paths).splitlines()]
    seen = {line[2].removeprefix(f"{home}/"): (line[0], line[1]) for line in lines}
    assert seen == {**ACCESS, **changes}
    mounts = Mounts(plan, observe(facts, paths))
    for name, (readable, writable) in seen.items():
        access = mounts.access(f"{home}/{name}")
        assert (access.readable, access.writable) == (readable == "yes", writable == "yes"), name


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    ("name", "moves"),
    [
        (".git", False),
        (".git/hooks", False),
        (".git/config", False),
        ("locked", False),
        ("hidden", False),
        (".env", False),
        ("src", True),
        ("README", True),
    ],
)
def test_nothing_restricted_is_moved_away(home: Path, name: str, moves: bool) -> None:
    policy = Policy.from_text(f"filesystem:\n{FILES}")
    facts = collect_facts(
        policy, project=home / "p", tmp=f"{home.parent}/scratch", environ={"HOME": str(home)}
    )
    said = _inside(mount_plan(policy.resolve(facts), root="host"), MOVE, f"{home}/p/{name}")
    assert ("moved" in said.splitlines()) is moves, said
    assert moves or "busy" in said or "Device or resource busy" in said


@pytest.mark.needs("bwrap")
def test_the_host_is_left_as_it_was(home: Path) -> None:
    before = sorted(home.rglob("*"))
    policy = Policy.from_text(f"filesystem:\n{FILES}  protect: [absent, also/absent]\n")
    facts = collect_facts(
        policy, project=home / "p", tmp=f"{home.parent}/scratch", environ={"HOME": str(home)}
    )
    plan = mount_plan(policy.resolve(facts), root="host")
    assert _inside(plan, "echo ran") == "ran"
    assert sorted(home.rglob("*")) == before
