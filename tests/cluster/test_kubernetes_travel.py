"""The upload of a project to a Pod, and its changes: none comes back at a path that the policy protects.

Tests of builder/sandwright_kubernetes/copier/source/copier.c.
Tests of builder/sandwright_kubernetes/sync/changes.py: conflicts, links that lead out.
Tests of builder/sandwright_kubernetes/sync/layers.py: the same project gives the same image.
Tests of builder/sandwright_kubernetes/sync/returned.py: a hostile archive from a Pod.
Tests of builder/sandwright_kubernetes/sync/rules.py: the paths that may be downloaded.
Tests of builder/sandwright_kubernetes/sync/snapshot.py: denied files are not sent.
Tests of folding.py: protected names in another case.
"""

from __future__ import annotations

import io
import os
import signal
import stat
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.travelling import SECRET, Project, archive_of, member
from sandwright import process
from sandwright.errors import ArchiveRefused, HostError
from sandwright.host import collect_host
from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.workspace.withheld import leads_out
from sandwright_kubernetes.copier import COPIER
from sandwright_kubernetes.sync.returned import unpack_changes
from sandwright_kubernetes.sync.snapshot import take_snapshot
from support.deadfuse import dead_fuse
from support.waiting import until

LIMIT = 90.0


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_what_is_denied_is_in_no_layer(project: Project) -> None:
    """The layer has the denied path's name as an empty entry, because it is a mount point."""
    snapshot, sent = project.snapshot()
    assert sent[b"project/src/a.c"] == b"int a;\n"
    assert SECRET not in b"".join(sent.values())
    assert {path: sent[path] for path in sent if b"secrets" in path or b"key" in path} == {
        b"project/secrets": b"",
        b"project/key.pem": b"",
    }
    assert snapshot.found[b"key.pem"].kind is EntryKind.FILE
    layers = [_inflated(blob) for blob in project.blobs().values() if blob[:2] == b"\x1f\x8b"]
    assert not any(SECRET in layer or b"inner" in layer for layer in layers)
    assert any(b"int a;" in layer for layer in layers)


def _inflated(data: bytes) -> bytes:
    found = b""
    while data:
        member_ = zlib.decompressobj(31)
        found += member_.decompress(data)
        data = member_.unused_data
    return found


def test_a_link_is_sent_as_a_link(project: Project, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_bytes(SECRET)
    (project.path / "way").symlink_to("../outside")
    (project.path / "way-in").symlink_to("secrets/inner/key")
    _, sent = project.snapshot()
    assert sent[b"project/way"] == b"../outside"
    assert SECRET not in b"".join(sent.values())


def test_the_same_project_gives_the_same_image(project: Project) -> None:
    """One changed file changes one layer, and the layer is the same for each platform."""
    before = project.blobs()
    assert project.blobs() == before
    project.write("src/a.c", b"int changed;\n")
    after = project.blobs()
    layers = [digest for digest in after.keys() - before.keys() if after[digest][:2] == b"\x1f\x8b"]
    assert len(layers) == 1
    assert b"int changed" in _inflated(after[layers[0]])


def test_a_denied_file_under_another_name(project: Project) -> None:
    os.link(project.path / "secrets/inner/key", project.path / "docs/y")
    with pytest.raises(HostError, match="'docs/y' is the same file as one that the policy denies"):
        project.snapshot()


@pytest.mark.parametrize("moved", ["secrets/inner/key", "secrets/inner", "key.pem"])
@pytest.mark.parametrize("back", [False, True])
def test_a_denied_file_that_is_moved_during_the_walk(project: Project, moved: str, back: bool) -> None:
    """The file leaves its denied name before the walk arrives and returns later, or the other way round."""
    here, there = project.path / moved, project.path / "src/a-new-name"
    names: list[bytes] = []

    def put(_: int, entry: TarEntry, content: Iterator[bytes]) -> None:
        names.append(entry.path)
        assert SECRET not in b"".join(content) or back
        if entry.path == b"project/docs" and not back:
            here.rename(there)
        if entry.path == b"project/src/b.c" and back:
            there.rename(here)

    rules = project.rules
    if back:
        here.rename(there)
    with pytest.raises(HostError, match="as one that the policy denies"):
        take_snapshot(rules, put)
    assert b"project/docs/x" in names, "the control: others were sent"


def test_only_what_is_mounted_travels(tmp_path: Path) -> None:
    project = Project(tmp_path, "extends: []\nfilesystem: {read: [$PROJECT/src], write: [$PROJECT/docs]}\n")
    _, sent = project.snapshot()
    assert {path for path in sent if sent[path]} == {
        b"project/src/a.c",
        b"project/src/b.c",
        b"project/docs/x",
    }
    assert project.rules.takes(b"docs/x")
    assert not project.rules.takes(b"src/a.c")
    assert not project.rules.takes(b"other")


def test_names_that_travel_to_no_cluster(project: Project) -> None:
    project.write("docs/.wh.x", b"")
    os.mkfifo(project.path / "docs/fifo")
    snapshot, sent = project.snapshot()
    assert [path for path, _ in snapshot.left_out] == [b"docs/.wh.x", b"docs/fifo"]
    assert not [path for path in sent if b".wh." in path or b"fifo" in path]


HOSTILE = {
    "a device": [member("dev", tarfile.CHRTYPE, devmajor=1, devminor=8)],
    "a block device": [member("dev", tarfile.BLKTYPE, devmajor=8)],
    "a fifo": [member("pipe", tarfile.FIFOTYPE)],
    "a hard link": [member("x", tarfile.LNKTYPE, linkname="etc/passwd")],
    "a hard link out": [member("x", tarfile.LNKTYPE, linkname="../../etc/passwd")],
    "a name that climbs": [member("../x", content=b"x")],
    "a name that climbs inside": [member("src/../../x", content=b"x")],
    "the root": [member(".", tarfile.DIRTYPE)],
    "below a link": [member("l", tarfile.SYMTYPE, linkname="src"), member("l/x", content=b"x")],
    "below a file": [member("f", content=b"f"), member("f/x", content=b"x")],
    "twice": [member("x", content=b"1"), member("x", content=b"2")],
    "an attribute": [member("x", pax_headers={"SCHILY.xattr.user.a": "b"})],
    "a capability": [member("x", pax_headers={"SCHILY.xattr.security.capability": "b"})],
    "an opaque directory": [member("src/.wh..wh..opq")],
    "metadata of AUFS": [member("src/.wh..wh.plnk")],
    "a whiteout of nothing": [member("src/.wh.")],
    "a whiteout of ..": [member("src/.wh...")],
    "a whiteout that is a directory": [member("src/.wh.a.c", tarfile.DIRTYPE)],
    "a sparse file": [member("x", pax_headers={"GNU.sparse.size": "1099511627776"})],
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_an_archive_that_is_refused(
    project: Project, members: list[tuple[tarfile.TarInfo, bytes]], tmp_path: Path
) -> None:
    """The whole archive is refused: the members before the fault change nothing either."""
    before = _tree(tmp_path / "p")
    with pytest.raises(ArchiveRefused, match="the Pod's archive"):
        project.apply(archive_of(member("docs/new", content=b"n"), *members))
    assert _tree(tmp_path / "p") == before
    assert not list(tmp_path.glob("x"))


def _tree(path: Path) -> dict[str, bytes]:
    return {
        str(each): each.read_bytes() for each in path.rglob("*") if each.is_file() and not each.is_symlink()
    }


def test_an_archive_that_is_too_large(tmp_path: Path) -> None:
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        large = archive_of(member("x", content=bytes(1 << 16)))
        with pytest.raises(ArchiveRefused, match="more than"):
            unpack_changes(io.BytesIO(large), root, lambda _: True, limits=ArchiveLimits(bytes=1 << 15))
        many = archive_of(*(member(f"x{number}") for number in range(20)))
        with pytest.raises(ArchiveRefused, match="more than the 10 members"):
            unpack_changes(io.BytesIO(many), root, lambda _: True, limits=ArchiveLimits(entries=10))
    finally:
        os.close(root)


PROTECTED = (
    "extends: [default]\nfilesystem: {write: [$PROJECT], deny: [$PROJECT/secrets, $PROJECT/key.pem]}\n"
)


@pytest.mark.parametrize(
    "name",
    [
        ".git/hooks/pre-commit", ".git/config", ".GIT/hooks/pre-commit", ".git\u200c/hooks/x", ".git./config",
        ".g\u206ait/hooks/x", ".\u00adgit/hooks/x", ".gi\ufe0ft/config", "s\u034fandbox.yaml",
        ".en\U000e0001vrc",
        ".envrc", ".ENVRC", ".vscode/settings.json", ".claude/commands/x",
        "sandbox.yaml", "secrets/new", "SECRETS/new", "key.pem",
    ],
)  # fmt: skip
@pytest.mark.parametrize("gone", [False, True])
def test_a_path_that_may_not_change(tmp_path: Path, name: str, gone: bool) -> None:
    """The change is a write or a removal. The control is in the same archive, and is accepted."""
    project = Project(tmp_path, PROTECTED)
    project.write(".git/hooks/pre-commit", b"mine")
    folder, _, last = name.rpartition("/")
    path = f"{folder}/.wh.{last}".lstrip("/") if gone else name
    project.write("sandbox.yaml", f"schema: 1\nmethod: kubernetes\n{PROTECTED}".encode())
    before = _tree(project.path)
    changes, applied = project.apply(
        archive_of(member(path, content=b"" if gone else b"evil"), member("docs/x", content=b"new"))
    )
    assert [os.fsdecode(each) for each, _ in changes.refused] == [name]
    assert (applied.changed, applied.conflicts) == (1, [])
    assert _tree(project.path) == {**before, str(project.path / "docs/x"): b"new"}


@pytest.mark.skipif(os.getuid() != 0 or not Path("/dev/fuse").exists(), reason="root mounts it")
def test_another_name_of_a_protected_directory(tmp_path: Path) -> None:
    """A file system may have another name for a directory (`GIT~1`): files below it are rejected, too."""
    project = Project(tmp_path, PROTECTED)
    project.write(".git/hooks/pre-commit", b"mine")
    project.path.rename(tmp_path / "shown")
    project.path.mkdir()
    with dead_fuse(tmp_path / "shown", project.path, "GIT~1", ".git"):
        assert (project.path / "GIT~1/hooks/pre-commit").read_bytes() == b"mine", "the control"
        _, applied = project.apply(
            archive_of(
                member("GIT~1", tarfile.DIRTYPE),
                member("GIT~1/hooks/post-checkout", content=b"evil"),
                member("GIT~1/more", tarfile.DIRTYPE),
                member("docs/y", content=b"new"),
                member("new", tarfile.DIRTYPE),
                member("new/z", content=b"new"),
            )
        )
    assert sorted(path.name for path in (tmp_path / "shown/.git").rglob("*")) == ["hooks", "pre-commit"]
    assert {path for path, _ in applied.conflicts} == {b"GIT~1", b"GIT~1/hooks/post-checkout", b"GIT~1/more"}
    assert (tmp_path / "shown/docs/y").read_bytes() == b"new", "the control: what is there is written to"
    assert (tmp_path / "shown/new/z").read_bytes() == b"new"


def test_a_directory_with_protected_names_is_not_removed(tmp_path: Path) -> None:
    project = Project(tmp_path, PROTECTED)
    project.write(".claude/commands/x", b"mine")
    project.write(".claude/other", b"mine")
    _, applied = project.apply(archive_of(member(".wh..claude")))
    assert (project.path / ".claude/commands/x").read_bytes() == b"mine"
    assert {path for path, _ in applied.conflicts} == {b".claude", b".claude/commands", b".claude/commands/x"}
    assert not (project.path / ".claude/other").exists(), "the control: what may be removed is"


@pytest.mark.parametrize("link", ["/etc/passwd", "../outside", "src/../../outside", "a/../../../x"])
def test_a_link_that_leads_out(project: Project, link: str) -> None:
    inside = member("docs/inside", tarfile.SYMTYPE, linkname="../src/a.c")
    changes, _ = project.apply(archive_of(member("l", tarfile.SYMTYPE, linkname=link), inside))
    assert [path for path, _ in changes.refused] == [b"l"]
    assert (project.path / "docs/inside").read_bytes() == b"int a;\n"
    assert not os.path.lexists(project.path / "l")
    assert leads_out(b"l", link.encode())


def test_links_that_lead_out_together(project: Project) -> None:
    """Each link stays inside by its text: the first leads to the project, and the second up from there."""
    first = member("docs/a", tarfile.SYMTYPE, linkname="..")
    second = member("l", tarfile.SYMTYPE, linkname="docs/a/docs/a/../../outside")
    changes, _ = project.apply(archive_of(first, second))
    assert [path for path, _ in changes.refused] == [b"l"]
    assert (project.path / "docs/a").resolve() == project.path.resolve(), "the control: it was taken"
    assert not os.path.lexists(project.path / "l")


def test_what_a_command_changed_comes_back(project: Project) -> None:
    (project.path / "src/a.c").chmod(0o600)
    archive = archive_of(
        member("src/a.c", content=b"changed", mode=0o6755, uid=0),
        member("src/.wh.b.c"),
        member("new", tarfile.DIRTYPE),
        member("new/tool", content=b"#!", mode=0o4755),
        member(".wh.docs"),
        member("docs", content=b"now a file"),
    )
    changes, applied = project.apply(archive)
    assert (changes.refused, applied.conflicts) == ([], [])
    assert (project.path / "src/a.c").read_bytes() == b"changed"
    assert stat.S_IMODE((project.path / "src/a.c").stat().st_mode) == 0o700
    assert not (project.path / "src/b.c").exists()
    assert stat.S_IMODE((project.path / "new/tool").stat().st_mode) & 0o7111 == 0o111
    assert (project.path / "docs").read_bytes() == b"now a file"
    assert not list(project.path.rglob(".sandwright-part-*"))


def test_what_was_changed_here_meanwhile_stays(project: Project) -> None:
    snapshot, _ = project.snapshot()
    project.write("src/a.c", b"mine")
    project.write("src/new.c", b"mine")
    project.write("docs/more", b"mine")
    (project.path / "src/b.c").unlink()
    archive = archive_of(
        member("src/a.c", content=b"theirs"),
        member("src/b.c", content=b"theirs"),
        member("src/new.c", content=b"theirs"),
        member(".wh.docs"),
    )
    _, applied = project.apply(archive, snapshot)
    assert sorted(path for path, _ in applied.conflicts) == [b"docs", b"src/a.c", b"src/b.c", b"src/new.c"]
    assert (project.path / "src/a.c").read_bytes() == b"mine"
    assert (project.path / "src/new.c").read_bytes() == b"mine"
    assert (project.path / "docs/more").read_bytes() == b"mine"
    assert not (project.path / "src/b.c").exists()
    same = archive_of(member("src/a.c", content=b"mine"))
    assert project.apply(same, snapshot)[1].conflicts == [], "the control: the same change on both sides"


def test_a_directory_that_became_a_link_here(project: Project, tmp_path: Path) -> None:
    """Returned files follow no link, not even one inside the project."""
    snapshot, _ = project.snapshot()
    (tmp_path / "outside").mkdir()
    (project.path / "src").rename(tmp_path / "moved")
    (project.path / "src").symlink_to(tmp_path / "outside")
    archive = archive_of(member("src/a.c", content=b"x"), member("src/n", content=b"x"), member(".wh.docs"))
    _, applied = project.apply(archive, snapshot)
    assert {path for path, _ in applied.conflicts} == {b"src/a.c", b"src/n"}
    assert list((tmp_path / "outside").iterdir()) == []
    assert not (project.path / "docs").exists(), "the control"


@pytest.fixture
def copier() -> Path:
    platform = collect_host().platform
    if platform not in COPIER.platforms:
        pytest.skip(f"no program for {platform}")
    return COPIER.path(platform)


def test_the_copier_tells_what_changed(copier: Path, project: Project, tmp_path: Path) -> None:
    """Files written in the volume return to the project through the copier's archive."""
    image, volume = tmp_path / "image", tmp_path / "volume"
    long = "d" * 90 + "/" + "f" * 90
    project.write(long, b"long")
    for path, content in project.snapshot()[1].items():
        target = image / os.fsdecode(path.removeprefix(b"project/"))
        if content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        elif not target.exists():
            target.mkdir(parents=True) if target.name != "key.pem" else target.touch()
    volume.mkdir()
    process.run(copier, "fill", image, volume)
    assert _changed(copier, image, volume) == b"", "what was not changed is not told"
    (volume / "src/a.c").write_bytes(b"int b;\n")
    (volume / "src/b.c").unlink()
    (volume / "docs/x").chmod(0o755)
    (volume / long).write_bytes(b"longer")
    (volume / "new").mkdir()
    (volume / "new/link").symlink_to("../src/" + "a" * 120)
    (volume / "new/closed").write_bytes(b"closed")
    (volume / "new/closed").chmod(0)
    os.mkfifo(volume / "new/fifo")
    told = process.run(copier, "diff", image, volume, "1000000", check=False)
    assert (told.status, "new/fifo" in told.stderr) == (3, True)
    changes, applied = project.apply(told.stdout)
    assert (changes.refused, applied.conflicts) == ([], [])
    assert (project.path / "src/a.c").read_bytes() == b"int b;\n"
    assert not (project.path / "src/b.c").exists()
    assert os.access(project.path / "docs/x", os.X_OK)
    assert (project.path / long).read_bytes() == b"longer"
    assert (project.path / "new/link").readlink() == Path("../src/" + "a" * 120)
    assert (project.path / "new/closed").read_bytes() == b"closed"


def _changed(copier: Path, image: Path, volume: Path) -> bytes:
    return process.run(copier, "diff", image, volume, "1000000").stdout.rstrip(b"\0")


def test_the_copier_has_limits(copier: Path, tmp_path: Path) -> None:
    image, volume = tmp_path / "image", tmp_path / "volume"
    image.mkdir()
    volume.mkdir()
    with (volume / "huge").open("wb") as huge:
        huge.truncate(1 << 42)
    ended = process.run(copier, "diff", image, volume, str(1 << 20), check=False)
    assert (ended.status, "too large for an archive" in ended.stderr) == (1, True)
    (volume / "huge").unlink()
    with (volume / "large").open("wb") as large:
        large.truncate(1 << 30)
    ended = process.run(copier, "diff", image, volume, str(1 << 20), check=False)
    assert (ended.status, "exceed 1048576 bytes" in ended.stderr) == (1, True)
    assert len(ended.stdout) <= 1 << 20


def test_the_copier_follows_no_link(copier: Path, tmp_path: Path) -> None:
    image, volume, outside = tmp_path / "image", tmp_path / "volume", tmp_path / "outside"
    for each in (image, volume, outside):
        each.mkdir()
    (outside / "key").write_bytes(SECRET)
    (image / "l").symlink_to(outside)
    process.run(copier, "fill", image, volume)
    assert (volume / "l").is_symlink()
    (volume / "m").symlink_to(outside / "key")
    assert SECRET not in process.run(copier, "diff", image, volume, "1000000").stdout


def test_the_copier_waits(copier: Path) -> None:
    with process.start(copier, "wait") as running:
        until(
            lambda: "State:\tS" in Path(f"/proc/{running.pid}/status").read_text(),
            "it does not wait",
            within=LIMIT,
        )
        running.send_signal(signal.SIGTERM)
        assert running.wait(LIMIT) == 0
