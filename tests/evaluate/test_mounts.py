"""Mount plans: the mounts and their order, the paths that stay open, and the agreement with the policy.

Tests of evaluate/mounts.py.
Tests of policy/startup.py: the paths that a program needs to start in an empty root.
Tests of render/mounts.py: order of mounts, parents first; pins on directories of a restriction.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.api import Policy
from sandwright.errors import UsageError
from sandwright.evaluate.mounts import Mounts
from sandwright.policy import load
from sandwright.policy.collect import collect_facts
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import unprotected_names
from sandwright.render.mounts import Mount, MountPlan, mount_plan

DIRECTORY, FILE, SOCKET = HostEntry("directory"), HostEntry("file"), HostEntry("socket")
ENTRIES = {
    **dict.fromkeys(
        (
            "/", "/usr", "/etc", "/dev", "/proc", "/tmp", "/run", "/home", "/home/u", "/home/u/.ssh",
            "/home/u/p", "/home/u/p/.git", "/home/u/p/.git/hooks", "/home/u/p/src", "/home/u/p/src/deep",
            "/srv", "/srv/data",
        ),
        DIRECTORY,
    ),
    "/etc/passwd": FILE,
    "/etc/shadow": FILE,
    "/home/u/.npmrc": FILE,
    "/home/u/p/.git/config": FILE,
    "/home/u/p/.env": FILE,
    "/srv/data/s": SOCKET,
    "/srv/data/t": SOCKET,
    "/bin": HostEntry("symlink", "usr/bin"),
    "/lib": HostEntry("symlink", "usr/lib"),
    "/usr/bin": DIRECTORY,
    "/usr/lib": DIRECTORY,
    "/data": HostEntry("symlink", "/srv/data"),
}  # fmt: skip
FACTS = HostFacts(os="linux", home="/home/u", project="/home/u/p", entries=ENTRIES)


def _resolve(text: str, facts: HostFacts = FACTS) -> ResolvedPolicy:
    return Policy.from_text(text).resolve(facts)


def _shown(plan: MountPlan) -> list[str]:
    kinds = []
    for mount in plan.mounts:
        right = "rw" if mount.writable else "ro"
        source = f" <- {mount.source}" if mount.source not in ("", mount.target) else ""
        kinds.append(f"{mount.kind} {mount.target} {right}{' pin' if mount.pin else ''}{source}")
    return kinds


def test_the_default_over_the_host() -> None:
    assert _shown(mount_plan(_resolve(""), root="host")) == [
        "bind / ro",
        "dev /dev rw",
        "proc /proc rw",
        "mask /run ro",
        "tmpfs /tmp rw",
        "mask /etc/shadow ro",
        "mask /home/u/.npmrc ro",
        "mask /home/u/.ssh ro",
        "bind /home/u/p rw",
        "bind /home/u/p/.git rw pin",
        "bind /home/u/p/.git/config ro",
        "bind /home/u/p/.git/hooks ro",
    ]


def test_the_default_over_an_image() -> None:
    assert _shown(mount_plan(_resolve(""), root="image")) == [
        "tmpfs /tmp rw",
        "bind /home/u/p rw",
        "bind /home/u/p/.git rw pin",
        "bind /home/u/p/.git/config ro",
        "bind /home/u/p/.git/hooks ro",
    ]


def test_an_empty_root_has_what_is_needed_to_start() -> None:
    text = "extends: []\nfilesystem: {read: [/data], write: [$PROJECT/src]}"
    assert _shown(mount_plan(_resolve(text), root="host")) == [
        "tmpfs / ro",
        "symlink /bin ro <- usr/bin",
        "symlink /data ro <- /srv/data",
        "dev /dev rw",
        "symlink /lib ro <- usr/lib",
        "proc /proc rw",
        "tmpfs /tmp rw",
        "bind /usr ro",
        "bind /etc/passwd ro",
        "bind /srv/data ro",
        "bind /home/u/p/src rw",
    ]


@pytest.mark.parametrize(
    ("text", "mounts"),
    [
        ("filesystem: {write: [/srv], readonly: [/srv/data]}", ["bind /srv rw", "bind /srv/data ro"]),
        ("filesystem: {write: [/srv], deny: [/srv/data]}", ["bind /srv rw", "mask /srv/data ro"]),
        ("filesystem: {write: [/srv/data], deny: [/srv]}", ["mask /srv ro", "bind /srv/data rw"]),
        ("filesystem: {read: [/, /srv/data], deny: [/srv]}", ["mask /srv ro", "bind /srv/data ro"]),
        ("filesystem: {write: [/srv], read: [/srv]}", ["bind /srv rw"]),
        ("filesystem: {read: [/]}", []),
        ("filesystem: {read: [/, /srv, /srv/data]}", []),
        ("filesystem: {write: [/srv, /srv/data]}", ["bind /srv rw"]),
        ("filesystem: {write: [/srv/missing]}", []),
        ("filesystem: {deny: [/srv/missing]}", []),
        ("filesystem: {deny: [/srv/data/s]}", ["mask /srv/data/s ro"]),
    ],
)
def test_only_what_changes_something_is_mounted(text: str, mounts: list[str]) -> None:
    shown = _shown(mount_plan(_resolve(text), root="host"))
    assert [line for line in shown if "/srv" in line] == mounts


def test_each_directory_between_is_a_mount_point() -> None:
    """Otherwise a program could rename one, and move the restriction out of the way."""
    text = "filesystem: {write: [$PROJECT], readonly: [$PROJECT/src/deep], deny: [$PROJECT/.env]}"
    shown = _shown(mount_plan(_resolve(text), root="host"))
    assert "bind /home/u/p/src rw pin" in shown
    assert "bind /home/u/p/src/deep ro" in shown
    assert "mask /home/u/p/.env ro" in shown
    assert not [line for line in shown if line.startswith("bind /home/u rw")]


def test_pins_inside_pins() -> None:
    entries = dict.fromkeys(("/srv", "/srv/a", "/srv/a/b", "/srv/a/b/c", "/srv/a/b/c/d"), DIRECTORY)
    facts = dataclasses.replace(FACTS, entries={**ENTRIES, **entries})
    text = "filesystem: {write: [/srv], deny: [/srv/a/b], read: [/srv/a/b/c/d]}"
    assert [line for line in _shown(mount_plan(_resolve(text, facts), root="host")) if "/srv" in line] == [
        "bind /srv rw",
        "bind /srv/a rw pin",
        "mask /srv/a/b ro",
        "bind /srv/a/b/c/d ro",
    ]


def test_what_a_mount_is_on_is_told() -> None:
    plan = mount_plan(_resolve("filesystem: {deny: [$PROJECT/.env, /srv/data/s]}"), root="host")
    kinds = {mount.target: mount.entry for mount in plan.mounts if mount.kind == "mask"}
    assert kinds == {
        "/run": "directory",
        "/etc/shadow": "file",
        "/home/u/.npmrc": "file",
        "/home/u/.ssh": "directory",
        "/home/u/p/.env": "file",
        "/srv/data/s": "socket",
    }


def test_what_is_granted_and_not_there_is_told() -> None:
    plan = mount_plan(_resolve("extends: []\nfilesystem: {read: [/usr, /nix], write: [/new]}"), root="host")
    assert [rule.path for rule in plan.missing] == ["/new", "/nix"]


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("filesystem: {deny: [$PROJECT/secret]}", []),
        ("filesystem: {write: [/srv], deny: [/srv/data]}", []),
        ("filesystem: {deny: [/home/u/other]}", []),
        ("filesystem: {deny: [/data]}", []),
        ("filesystem: {readonly: [$PROJECT], deny: [$PROJECT/link]}", []),
        ("filesystem: {readonly: [$PROJECT/src/deep], deny: [$PROJECT/src/deep/link]}", []),
        (
            "filesystem: {deny: [$PROJECT/link]}",
            ["deny $PROJECT/link leads through the link /home/u/p/link to /srv/data"],
        ),
        (
            "filesystem: {readonly: [$PROJECT/link/x]}",
            ["readonly $PROJECT/link/x leads through the link /home/u/p/link to /srv/data/x"],
        ),
        (
            "filesystem: {deny: [$PROJECT/gone]}",
            ["deny $PROJECT/gone leads through the link /home/u/p/gone to /home/u/p/nowhere"],
        ),
        (
            "filesystem: {protect: [link/x]}",
            ["protect link/x leads through the link /home/u/p/link to /srv/data/x"],
        ),
    ],
)
def test_links_that_mounts_cannot_keep_are_told(text: str, links: list[str]) -> None:
    facts = FACTS.with_entries(
        {
            "/home/u/p/link": HostEntry("symlink", "/srv/data"),
            "/home/u/p/gone": HostEntry("symlink", "nowhere"),
            "/home/u/other": HostEntry("symlink", "p/src"),
            "/home/u/p/src/deep/link": HostEntry("symlink", "/srv/data"),
        }
    )
    assert list(map(str, _resolve(text, facts).filesystem.links)) == links


def test_names_that_would_move_gits_hooks_are_covered() -> None:
    placeholders = _covers_of_git()
    assert placeholders == [
        ("branches", "directory", b""),
        ("commondir", "file", b".\n"),
        ("config.worktree", "file", b""),
        ("info", "directory", b""),
        ("objects", "directory", b""),
        ("remotes", "directory", b""),
    ]
    info = FACTS.with_entries({"/home/u/p/.git/info": DIRECTORY})
    assert _covers_of_git(info)[3:] == [("info/attributes", "file", b""), *placeholders[4:]]
    objects = FACTS.with_entries(
        dict.fromkeys(("/home/u/p/.git/objects", "/home/u/p/.git/objects/info"), DIRECTORY)
    )
    assert _covers_of_git(objects)[4:] == [("objects/info/alternates", "file", b""), placeholders[5]]
    entries = {path: entry for path, entry in ENTRIES.items() if not path.endswith(("hooks", ".git/config"))}
    assert _covers_of_git(dataclasses.replace(FACTS, entries=entries)) == [
        *placeholders[:2],
        ("config", "file", b""),
        placeholders[2],
        ("hooks", "directory", b""),
        *placeholders[3:],
    ]
    with_commondir = FACTS.with_entries({"/home/u/p/.git/commondir": FILE})
    assert _covers_of_git(with_commondir) == [placeholders[0], *placeholders[2:]]
    readonly = "filesystem: {write: [$PROJECT/src]}"
    assert not [each for each in mount_plan(_resolve(readonly), root="host").placeholders if each.closes]


def _covers_of_git(facts: HostFacts = FACTS) -> list[tuple[str, str, bytes]]:
    git = "/home/u/p/.git"
    placeholders = mount_plan(_resolve("", facts), root="host").placeholders
    assert {each.closes for each in placeholders if each.path.startswith(f"{git}/")} == {git}
    return [
        (each.path.removeprefix(f"{git}/"), each.entry, each.content) for each in placeholders if each.closes
    ]


def test_a_git_file_cannot_be_rewritten() -> None:
    entries = {path: entry for path, entry in ENTRIES.items() if "/.git" not in path}
    facts = dataclasses.replace(FACTS, entries={**entries, "/home/u/p/.git": FILE})
    assert "bind /home/u/p/.git ro" in _shown(mount_plan(_resolve("", facts), root="host"))


def test_protected_names_that_could_appear() -> None:
    found = {path for path, _ in unprotected_names(_resolve(""))}
    assert "/home/u/p/.vscode" in found
    assert "/home/u/p/.git/config.worktree" in found
    assert "/home/u/p/.git/hooks" not in found
    assert not [path for path in found if not path.startswith("/home/u/p/")]


def test_sockets() -> None:
    facts = dataclasses.replace(FACTS, sockets=("/srv/data/s", "/srv/data/t", "/run/x", "/srv/gone"))
    shown = _shown(mount_plan(_resolve("", facts), root="host"))
    assert [line for line in shown if "/srv" in line] == ["mask /srv/data/s ro", "mask /srv/data/t ro"]
    allowed = "network: {unix_sockets: [/srv/data/s]}"
    shown = _shown(mount_plan(_resolve(allowed, facts), root="host"))
    assert [line for line in shown if "/srv" in line] == ["mask /srv/data/t ro"]
    shown = _shown(mount_plan(_resolve(allowed, facts), root="image"))
    assert [line for line in shown if "/srv" in line] == ["bind /srv/data/s ro"]
    hidden = "filesystem: {deny: [/srv]}\n" + allowed
    shown = _shown(mount_plan(_resolve(hidden, facts), root="host"))
    assert [line for line in shown if "/srv" in line] == ["mask /srv ro", "bind /srv/data/s ro"]


def test_a_project_in_the_temporary_directory() -> None:
    entries = {
        **ENTRIES,
        **dict.fromkeys(("/tmp/p", "/tmp/p/.git", "/tmp/p/.git/hooks", "/tmp/other"), DIRECTORY),
    }
    facts = dataclasses.replace(FACTS, project="/tmp/p", entries=entries)
    text = "filesystem: {deny: [/tmp/other, /tmp/p/secret]}"
    plan = mount_plan(_resolve(text, facts), root="host")
    assert [line for line in _shown(plan) if "/tmp" in line] == [
        "tmpfs /tmp rw",
        "bind /tmp/p rw",
        "bind /tmp/p/.git rw pin",
        "bind /tmp/p/.git/hooks ro",
    ]
    shared = mount_plan(_resolve(text + "\n" + "network: {mode: none}", facts), root="image")
    assert "bind /tmp/p rw" in _shown(shared)


def test_a_shared_temporary_directory() -> None:
    assert "bind /tmp rw" in _shown(mount_plan(_resolve("filesystem: {tmp: shared}"), root="host"))


@pytest.mark.parametrize("root", ["host", "image"])
def test_parents_come_before_children_and_nothing_is_hidden(root: str) -> None:
    text = "filesystem: {write: [/srv, $PROJECT], deny: [/srv/data], read: [/, /srv/data/s]}"
    plan = mount_plan(_resolve(text), root=root)  # type: ignore[arg-type]
    seen: set[str] = set()
    for mount in plan.mounts:
        assert not any(other.startswith(f"{mount.target}/") for other in seen), mount.target
        seen.add(mount.target)
    assert len(seen) == len(plan.mounts)
    assert Mounts(plan, FACTS).hidden() == ()


def test_every_bind_is_on_something_that_exists() -> None:
    policy = _resolve("filesystem: {write: [$PROJECT, /nowhere]}")
    for plan in (mount_plan(policy, root="host"), mount_plan(policy, root="image")):
        for mount in plan.mounts:
            assert mount.kind != "bind" or FACTS.kind(mount.source) is not None


@pytest.mark.parametrize(
    ("path", "readable", "writable", "because"),
    [
        ("/home/u/p/a", True, True, "the host's /home/u/p/a is bound there, writable"),
        (
            "/home/u/p/.git/hooks/x",
            True,
            False,
            "the host's /home/u/p/.git/hooks/x is bound there, read-only",
        ),
        ("/home/u/.ssh/id", False, False, "/home/u/.ssh is hidden by an empty mount"),
        ("/etc/passwd", True, False, "the host's /etc/passwd is bound there, read-only"),
        ("/tmp/x", True, True, "/tmp is the sandbox's own"),
        ("/dev/null", True, True, "/dev is the sandbox's own"),
        ("/data/x", True, False, "the host's /srv/data/x is bound there, read-only"),
        ("/data/../x", True, False, "the host's /srv/x is bound there, read-only"),
    ],
)
def test_answers_over_the_host(path: str, readable: bool, writable: bool, because: str) -> None:
    access = Mounts(mount_plan(_resolve(""), root="host"), FACTS).access(path)
    assert (access.readable, access.writable, access.because) == (readable, writable, because)


def test_answers_over_an_image() -> None:
    mounts = Mounts(mount_plan(_resolve(""), root="image"), FACTS)
    assert mounts.access("/etc/passwd").because == "it is the image's own"
    assert mounts.access("/etc/passwd").mount is None
    assert not mounts.access("/etc/passwd").writable
    assert mounts.access("/home/u/p/a").writable


def test_answers_over_an_empty_root() -> None:
    text = "extends: []\nfilesystem: {read: [/data]}"
    mounts = Mounts(mount_plan(_resolve(text), root="host"), FACTS)
    assert mounts.access("/bin/env").path == "/usr/bin/env"
    assert mounts.access("/bin/env").readable
    assert mounts.access("/data/x").path == "/srv/data/x"
    assert mounts.access("/srv/x").because == "only mounts are seen below /, and none shows this"
    assert not mounts.access("/srv/x").readable


def test_a_later_mount_hides_an_earlier_one() -> None:
    early, late = Mount("/tmp/x", "bind", writable=True, source="/x"), Mount("/tmp", "tmpfs", writable=True)
    wrong = Mounts(MountPlan("host", (early, late), (), ()), FACTS)
    assert wrong.access("/tmp/x").because == "/tmp is the sandbox's own"
    assert wrong.hidden() == (early,)
    right = Mounts(MountPlan("host", (late, early), (), ()), FACTS)
    assert right.access("/tmp/x").because == "the host's /x is bound there, writable"
    assert right.hidden() == ()


def test_links_inside_are_followed_as_the_kernel_does() -> None:
    facts = FACTS.with_entries({"/a": HostEntry("symlink", "b"), "/b": HostEntry("symlink", "a")})
    mounts = Mounts(mount_plan(_resolve("", facts), root="host"), facts)
    assert mounts.access("/a/x").because == "its links form a loop"
    for path in ("relative", "/a\0b"):
        with pytest.raises(UsageError):
            mounts.access(path)


NAMES = ["a", "b"]
TREE = ["/t", "/t/a", "/t/b", "/t/a/a", "/t/a/b", "/t/b/a", "/t/a/a/a", "/t/a/a/b"]
ALL = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    entries=dict.fromkeys(("/", "/tmp", "/dev", "/proc", "/home", "/home/u", "/home/u/p", *TREE), DIRECTORY),
)
LISTS = st.lists(st.sampled_from(TREE), max_size=4, unique=True)


@settings(deadline=None)
@given(
    st.sampled_from([["/"], [], ["/t/a"], ["/t"]]), LISTS, LISTS, LISTS, st.sampled_from(["host", "image"])
)
def test_mounts_say_what_the_policy_says(
    read: list[str], write: list[str], readonly: list[str], deny: list[str], root: str
) -> None:
    lists = {"read": read, "write": write, "readonly": readonly, "deny": deny}
    text = "".join(f"  {key}: [{', '.join(paths)}]\n" for key, paths in lists.items())
    policy = Policy.from_layers([load.layer(f"extends: []\nfilesystem:\n{text}")]).resolve(ALL)
    plan = mount_plan(policy, root=root)  # type: ignore[arg-type]
    mounts = Mounts(plan, ALL)
    assert mounts.hidden() == ()
    for path in TREE:
        access = mounts.access(path)
        if access.mount is None:
            assert root == "image"
            assert not policy.is_path_writable(path)
            assert not policy.is_path_readable(path) or read == ["/"]
            continue
        assert access.readable is policy.is_path_readable(path), path
        assert access.writable is policy.is_path_writable(path), path


@settings(deadline=None)
@given(LISTS, LISTS)
def test_nothing_restricted_can_be_moved(write: list[str], restricted: list[str]) -> None:
    """Each directory above a restriction is a mount point, up to the first parent that is not writable."""
    lists = f"read: [/], write: [{', '.join(write)}], readonly: [{', '.join(restricted)}]"
    text = f"extends: []\nfilesystem: {{{lists}}}\n"
    plan = mount_plan(Policy.from_layers([load.layer(text)]).resolve(ALL), root="host")
    mounts = Mounts(plan, ALL)
    targets = {mount.target for mount in plan.mounts}
    for path in restricted:
        step = path
        while step != "/":
            parent = step.rpartition("/")[0] or "/"
            assert step in targets or not mounts.access(parent).writable, (path, step)
            step = parent


@pytest.mark.needs("git")
def test_git_works_with_what_covers_its_names(tmp_path: Path) -> None:
    git = ("git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
    process.run("git", "init", "-q", tmp_path)
    plan = mount_plan(
        Policy.from_text("").resolve(collect_facts(Policy.from_text(""), project=tmp_path, environ={})),
        root="host",
    )
    for placeholder in plan.placeholders:
        if placeholder.entry == "directory":
            Path(placeholder.path).mkdir(mode=0o1555)
        else:
            Path(placeholder.path).write_bytes(placeholder.content)
    assert Path(tmp_path, ".git", "commondir").read_bytes() == b".\n"
    process.run(*git, "commit", "-q", "--allow-empty", "-m", "x", cwd=tmp_path)
    assert process.run(*git, "status", "--short", cwd=tmp_path).text == ""
    assert process.run(*git, "log", "--oneline", cwd=tmp_path).text.endswith(" x")
