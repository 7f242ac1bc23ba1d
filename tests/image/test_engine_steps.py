"""The steps of Dockerfiles, run here: their result equals the embedded builder's.

Tests of image/declared.py: the same steps in a Dockerfile.
Tests of image/residue.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.errors import BuildError
from sandwright.image import accounts
from sandwright.image.definition import ImageDefinition
from sandwright.image.dockerfile.shellrules import pattern, residue_function, wanted_function
from sandwright.image.residue import is_residue
from sandwright.image.sections import ImageBase, ImageGroup, ImageUser
from sandwright.resources import data_path
from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from support.debs import Member, deb, folder, link
from support.thorough import examples

pytestmark = pytest.mark.needs("dpkg-deb", "mawk")

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="files belong to the users that packages name")
STEPS = data_path("images", "engine", "steps")
PASSWD = b"root:x:0:0:root:/root:/bin/sh\nbin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
GROUP = b"root:x:0:\ntty:x:5:\nstaff:x:50:ann,bob\n"


def step(place: Path, name: str, *words: str, check: bool = True) -> process.Result:
    if not (place / "steps").exists():
        (place / "steps").symlink_to(STEPS)
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        "SOURCE_DATE_EPOCH": "2000000000",
    }
    return process.run("sh", f"steps/{name}", *words, cwd=place, env=environment, check=check, timeout=60)


def answers(function: str, name: str, calls: Sequence[Sequence[str]]) -> list[bool]:
    """The answers of a shell function to each call: whether its status is 0."""
    script = (
        function
        + f'\nwhile [ $# -gt 0 ]; do if {name} "$1" "$2"; then echo 1; else echo 0; fi; shift 2; done'
    )
    words = [word for call in calls for word in (*call, "")[:2]]
    return [line == "1" for line in process.run("sh", "-c", script, "sh", *words).text.split()]


# -- which files belong to an image


PATHS = st.text(alphabet="ab/.*?[]!^-\\'$ `(x", min_size=1, max_size=8).map(lambda text: "/" + text)
GLOBS = st.text(alphabet="ab/.*?[]!^-\\'$ `(x", min_size=1, max_size=8).map(lambda text: "/" + text)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(GLOBS, max_size=3), st.lists(GLOBS, max_size=2), st.lists(PATHS, min_size=1, max_size=20))
def test_wanted_is_what_the_definition_wants(exclude: list[str], keep: list[str], paths: list[str]) -> None:
    globs = [glob for glob in (*exclude, *keep) if glob.count("[") == glob.count("]")]
    exclude = [glob for glob in exclude if glob in globs]
    keep = [glob for glob in keep if glob in globs]
    definition = ImageDefinition(
        schema_version=1, description="x", base=ImageBase(image="x"), exclude=tuple(exclude), keep=tuple(keep)
    )
    expected = [definition.wanted()(path) for path in paths]
    assert answers(wanted_function(exclude, keep), "wanted", [[path] for path in paths]) == expected


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        pytest.param(
            "/usr/share/doc/*", "/usr/share/doc/a/b/.c", "/usr/share/doc", id="stars match slashes and dots"
        ),
        pytest.param("/a?c", "/a/c", "/ac", id="a question mark is one character"),
        pytest.param("/[!a]", "/b", "/a", id="not these"),
        pytest.param("/[^a]", "/^", "/b", id="a circumflex means itself"),
        pytest.param("/$(id)", "/$(id)", "/0", id="nothing is run"),
        pytest.param("/a b", "/a b", "/a", id="a space"),
        pytest.param("/a|b", "/a|b", "/a", id="no alternatives"),
        pytest.param("/a) return 0 ;; *", "/a) return 0 ;; x", "/b", id="the branch can't be left"),
    ],
)
def test_a_glob_means_the_same_to_the_shell(glob: str, yes: str, no: str) -> None:
    function = f"matches() {{ case $1 in {pattern(glob)}) return 0 ;; esac; return 1; }}"
    assert answers(function, "matches", [[yes], [no]]) == [True, False]


RESIDUE = [
    ("d", "dev"),
    ("c", "dev/null"),
    ("f", "etc/passwd"),
    ("f", "etc/passwd-"),
    ("d", "etc/apt"),
    ("d", "etc/apt/apt.conf.d"),
    ("f", "etc/apt/apt.conf.d/70debconf"),
    ("f", "etc/apt/apt.conf.d/99mmdebstrap"),
    ("f", "etc/apt/sources.list"),
    ("d", "var/lib/apt"),
    ("f", "var/lib/apt/extended_states"),
    ("d", "var/log/apt"),
    ("f", "var/log/dpkg.log"),
    ("l", "var/log/link"),
    ("f", "var/log/apt/history.log"),
    ("f", "var/lib/dpkg/status"),
    ("f", "var/lib/dpkg/status-old"),
    ("d", "tmp"),
    ("f", "tmp/x/y"),
    ("f", "usr/bin/work"),
]
KINDS = {"d": EntryKind.DIRECTORY, "f": EntryKind.FILE, "l": EntryKind.SYMLINK, "c": EntryKind.CHARACTER}


@pytest.mark.parametrize("packages", [["dash"], ["apt", "dash"]], ids=["without apt", "with apt"])
def test_residue_is_what_the_embedded_builder_leaves_out(packages: list[str]) -> None:
    expected = [is_residue(TarEntry(path.encode(), KINDS[kind]), packages) for kind, path in RESIDUE]
    assert True in expected
    assert False in expected
    calls = [[path, kind] for kind, path in RESIDUE]
    assert answers(residue_function(packages), "residue", calls) == expected


# -- accounts


def ours(
    files: Mapping[bytes, bytes], users: Sequence[ImageUser], groups: Sequence[ImageGroup]
) -> dict[str, bytes]:
    changed = accounts.extended({b"etc/" + name: text for name, text in files.items()}, users, groups)
    return {path.decode().removeprefix("etc/"): text for path, text in changed.items()}


def theirs(
    place: Path, files: Mapping[bytes, bytes], users: Sequence[ImageUser], groups: Sequence[ImageGroup]
) -> dict[str, bytes]:
    for name in ("base", "target"):
        (place / name).mkdir()
    for file, text in files.items():
        (place / "base" / os.fsdecode(file)).write_bytes(text)
    (place / "users").write_bytes(b"".join(map(accounts.passwd_line, users)))
    (place / "groups").write_bytes(b"".join(accounts.group_line(group, group.members) for group in groups))
    step(place, "accounts", "base", "target")
    return {path.name: path.read_bytes() for path in (place / "target").iterdir()}


def user(name: str, uid: int) -> ImageUser:
    return ImageUser(name=name, uid=uid, gid=uid, comment="c", home=f"/home/{name}", shell="/bin/sh")


ACCOUNTS = [
    pytest.param(
        {b"passwd": PASSWD, b"group": GROUP}, [user("app", 7)], [ImageGroup(name="app", gid=7)], id="new"
    ),
    pytest.param(
        {b"passwd": PASSWD, b"group": GROUP, b"shadow": b"root:*:1::::::\n", b"gshadow": b"root:*::\n"},
        [user("app", 7)],
        [ImageGroup(name="app", gid=7, members=("app", "bin"))],
        id="with passwords",
    ),
    pytest.param(
        {b"passwd": PASSWD, b"group": GROUP},
        [],
        [ImageGroup(name="staff", gid=50, members=("bob", "cy"))],
        id="joined",
    ),
    pytest.param(
        {b"passwd": PASSWD, b"group": GROUP},
        [],
        [ImageGroup(name="staff", gid=50, members=("bob",))],
        id="no change",
    ),
    pytest.param(
        {b"passwd": PASSWD[:-1], b"group": GROUP[:-1]}, [user("app", 7)], [], id="no newline at the end"
    ),
    pytest.param({b"group": GROUP}, [user("app", 7)], [], id="no passwd"),
    pytest.param({}, [user("app", 7)], [ImageGroup(name="app", gid=7)], id="no files"),
    pytest.param(
        {b"passwd": b"# no\n+::::::\n\n:x:9:9::/:/\n" + PASSWD, b"group": GROUP},
        [user("app", 9)],
        [],
        id="lines that are no accounts",
    ),
]


@pytest.mark.parametrize(("files", "users", "groups"), ACCOUNTS)
def test_accounts_are_added_as_the_embedded_builder_adds_them(
    files: dict[bytes, bytes], users: list[ImageUser], groups: list[ImageGroup], tmp_path: Path
) -> None:
    assert theirs(tmp_path, files, users, groups) == ours(files, users, groups)


@pytest.mark.parametrize(
    ("users", "groups", "message"),
    [
        pytest.param(
            [user("bin", 7)], [], "cannot add user 'bin': the base has it, with number 2", id="name"
        ),
        pytest.param([user("app", 2)], [], "number 2 is that of 'bin' in the base", id="number"),
        pytest.param([], [ImageGroup(name="tty", gid=6)], "cannot add group 'tty'", id="group's name"),
        pytest.param(
            [], [ImageGroup(name="t", gid=5)], "number 5 is that of 'tty' in the base", id="group's number"
        ),
    ],
)
def test_taken_accounts_are_refused(
    users: list[ImageUser], groups: list[ImageGroup], message: str, tmp_path: Path
) -> None:
    files = {b"passwd": PASSWD, b"group": GROUP}
    with pytest.raises(BuildError) as refused:
        ours(files, users, groups)
    assert message in str(refused.value)
    (tmp_path / "users").write_bytes(b"".join(map(accounts.passwd_line, users)))
    (tmp_path / "groups").write_bytes(b"".join(accounts.group_line(group, group.members) for group in groups))
    (tmp_path / "base").mkdir()
    for name, text in files.items():
        (tmp_path / "base" / name.decode()).write_bytes(text)
    result = step(tmp_path, "accounts", "base", "target", check=False)
    assert result.status != 0
    assert message in result.stderr


def test_modes_of_account_files_stay(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    for name, mode in (("passwd", 0o644), ("group", 0o644), ("shadow", 0o640)):
        (tmp_path / "base" / name).write_text("")
        (tmp_path / "base" / name).chmod(mode)
    (tmp_path / "users").write_bytes(accounts.passwd_line(user("app", 7)))
    (tmp_path / "groups").write_text("")
    step(tmp_path, "accounts", "base", "target")
    modes = {path.name: path.stat().st_mode & 0o7777 for path in (tmp_path / "target").iterdir()}
    assert modes == {"passwd": 0o644, "shadow": 0o640}


# -- packages


def unpack(place: Path, **packages: bytes) -> process.Result:
    (place / "packages").mkdir()
    for name, raw in packages.items():
        (place / "packages" / f"{name}.deb").write_bytes(raw)
    (place / "unpack-order").write_text("".join(f"{name}.deb\n" for name in packages))
    return step(place, "unpack", str(place / "rootfs"), check=False)


@ROOT
def test_the_last_word_on_a_directory_counts(tmp_path: Path) -> None:
    first = deb([folder("./d/", 0o700), Member("./d/one", "1")])
    last = deb([folder("./d/", 0o755), Member("./d/two", "2", mode=0o4755)])
    assert unpack(tmp_path, first=first, last=last)
    assert (tmp_path / "rootfs/d").stat().st_mode & 0o7777 == 0o755
    assert sorted(path.name for path in (tmp_path / "rootfs/d").iterdir()) == ["one", "two"]
    assert (tmp_path / "rootfs/d/two").stat().st_mode & 0o7777 == 0o4755


def test_two_packages_with_one_file_are_an_error(tmp_path: Path) -> None:
    one = deb([folder("./d/"), Member("./d/file", "1")])
    result = unpack(tmp_path, one=one, two=one)
    assert result.status != 0
    assert "d/file" in result.stderr


def test_a_link_where_another_package_has_a_directory_is_an_error(tmp_path: Path) -> None:
    result = unpack(
        tmp_path, one=deb([link("./d", "elsewhere")]), two=deb([folder("./d/"), Member("./d/file")])
    )
    assert result.status != 0


def test_a_damaged_package_is_an_error(tmp_path: Path) -> None:
    raw = deb([Member("./file", "text")])
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/a.deb").write_bytes(raw)
    sums = "0" * 64 + "  packages/a.deb\n"
    (tmp_path / "SHA256SUMS").write_text(sums)
    digest = process.run("sha256sum", tmp_path / "SHA256SUMS").text.split()[0]
    result = step(tmp_path, "verify", digest, check=False)
    assert result.status != 0
    assert "packages/a.deb: FAILED" in result.stdout.decode() + result.stderr
    other = step(tmp_path, "verify", "1" * 64, check=False)
    assert other.status != 0
    right = process.run("sha256sum", "packages/a.deb", cwd=tmp_path).text + "\n"
    (tmp_path / "SHA256SUMS").write_text(right)
    digest = process.run("sha256sum", tmp_path / "SHA256SUMS").text.split()[0]
    assert step(tmp_path, "verify", digest)


def test_what_is_left_out(tmp_path: Path) -> None:
    root = tmp_path / "rootfs"
    for path in (
        "usr/share/doc/a/copyright",
        "usr/share/doc/a/changelog",
        "usr/share/doc/b/changelog",
        "bin/x y",
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    (root / "usr/share/man").mkdir()
    (tmp_path / "wanted").write_text(
        wanted_function(["/usr/share/doc/*", "/bin/*"], ["/usr/share/doc/*/copyright"])
    )
    step(tmp_path, "leave-out", str(root))
    found = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    assert found == [
        *("bin", "usr", "usr/share", "usr/share/doc", "usr/share/doc/a", "usr/share/doc/a/copyright"),
        "usr/share/man",
    ]


@ROOT
def test_merging_usr(tmp_path: Path) -> None:
    raw = deb(
        [
            *(folder("./bin/"), Member("./bin/tool", "1", mode=0o755)),
            Member("./bin/again", kind=b"1", link="./bin/tool"),
            *(folder("./lib64/"), link("./lib64/ld.so", "../lib/ld.so")),
            *(folder("./usr/"), folder("./usr/bin/"), Member("./usr/bin/other", "2")),
        ]
    )
    assert unpack(tmp_path, a=raw)
    root = tmp_path / "rootfs"
    step(tmp_path, "merge-usr", str(root), "bin", "sbin", "lib")
    assert {path.name: str(path.readlink()) for path in root.iterdir() if path.is_symlink()} == {
        "bin": "usr/bin",
        "sbin": "usr/sbin",
        "lib": "usr/lib",
        "lib64": "usr/lib64",
    }
    assert sorted(path.name for path in (root / "usr/bin").iterdir()) == ["again", "other", "tool"]
    assert (root / "usr/bin/tool").stat().st_ino == (root / "usr/bin/again").stat().st_ino
    assert (root / "usr/lib64/ld.so").is_symlink()


def test_merging_usr_refuses_what_is_there_twice(tmp_path: Path) -> None:
    for path in ("rootfs/bin/tool", "rootfs/usr/bin/tool"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(path)
    result = step(tmp_path, "merge-usr", str(tmp_path / "rootfs"), check=False)
    assert result.status != 0
    assert "/bin/tool is in /usr too" in result.stderr
