"""Images with an unexpected file where runtimes mount or start: replaced, contained or refused, and reported.

The class of CVE-2019-19921, CVE-2021-30465, CVE-2024-21626, CVE-2025-31133, CVE-2026-41579, CVE-2026-55686.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.errors import ArchiveRefused, BuildError
from sandwright.render.baseline import BaselineMount, load_baseline
from sandwright.rootfs.bundles.mountpoints import PreparedRootfs, RootfsChange, prepare
from sandwright.rootfs.securejoin import Root

TIME = 1_600_000_000


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    """A root without faults, and a directory beside it that plays the host."""
    root = tmp_path / "rootfs"
    for name in ("proc", "sys", "dev", "tmp", "etc", "work"):
        (root / name).mkdir(parents=True)
    for name in ("hostname", "hosts", "resolv.conf", "passwd", "group"):
        (root / "etc" / name).write_text(f"the image's {name}\n")
    (tmp_path / "host").mkdir()
    (tmp_path / "host/file").write_text("host")
    os.utime(root, (TIME, TIME))
    os.utime(root / "etc", (TIME, TIME))
    return root


@pytest.fixture(autouse=True)
def host_stays_as_it_is(tmp_path: Path) -> object:
    """Nothing outside an image's root changes, whatever the image does."""
    yield
    host = tmp_path / "host"
    if host.exists():
        assert [path.name for path in host.iterdir()] == ["file"]
        assert (host / "file").read_text() == "host"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["host", "rootfs"]


def prepared(rootfs: Path, cwd: str = "/work", volumes: tuple[str, ...] = ()) -> PreparedRootfs:
    with Root(rootfs) as root:
        return prepare(root, baseline=load_baseline(), cwd=cwd, volumes=volumes)


def test_root_with_nothing_wrong_is_left_alone(rootfs: Path) -> None:
    before = {path: path.lstat().st_mtime_ns for path in rootfs.rglob("*")}
    assert prepared(rootfs) == PreparedRootfs((), ())
    assert {path: path.lstat().st_mtime_ns for path in rootfs.rglob("*")} == before


def test_empty_root_gets_everything(tmp_path: Path) -> None:
    root = tmp_path / "rootfs"
    root.mkdir(mode=0o755)
    (tmp_path / "host").mkdir()
    (tmp_path / "host/file").write_text("host")
    os.utime(root, (TIME, TIME))
    changes = prepared(root, "/a/b").changes
    assert {change.action for change in changes} == {"created"}
    found = {str(path.relative_to(root)): oct(path.stat().st_mode)[-5:] for path in root.rglob("*")}
    assert found == {
        "proc": "40555",
        "sys": "40555",
        "dev": "40755",
        "tmp": "41777",
        "etc": "40755",
        "a": "40755",
        "a/b": "40755",
        **{f"etc/{name}": "00644" for name in ("hostname", "hosts", "resolv.conf", "passwd", "group")},
    }
    assert {path.stat().st_mtime for path in (root, *root.rglob("*"))} == {TIME}, "no clock in it"


def test_preparing_twice_changes_nothing_more(rootfs: Path) -> None:
    (rootfs / "dev").rmdir()
    (rootfs / "dev").symlink_to("/host")
    assert prepared(rootfs, "/new").changes
    assert prepared(rootfs, "/new").changes == ()


def is_link_to(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.symlink_to(target)

    return make


def is_file(path: Path) -> None:
    path.write_text("in the way")


def is_fifo(path: Path) -> None:
    os.mkfifo(path)


IN_THE_WAY = {
    "relative link out": (is_link_to("../host"), "a symbolic link to '../host'"),
    "absolute link": (is_link_to("/etc"), "a symbolic link to '/etc'"),
    "absolute link to the host": (is_link_to("/tmp"), "a symbolic link to '/tmp'"),
    "link to itself": (is_link_to("."), "a symbolic link to '.'"),
    "dangling link": (is_link_to("/nowhere"), "a symbolic link to '/nowhere'"),
    "file": (is_file, "a file"),
    "fifo": (is_fifo, "a FIFO"),
}


@pytest.mark.parametrize(("make", "what"), IN_THE_WAY.values(), ids=IN_THE_WAY.keys())
@pytest.mark.parametrize("name", ["proc", "sys", "dev", "tmp"])
def test_mount_point_that_is_something_else_is_replaced(
    name: str, make: Callable[[Path], None], what: str, rootfs: Path
) -> None:
    (rootfs / name).rmdir()
    make(rootfs / name)
    assert prepared(rootfs).changes == (
        RootfsChange(f"/{name}", "replaced", f"{what} became an empty directory"),
    )
    assert (rootfs / name).is_dir()
    assert not (rootfs / name).is_symlink()


def test_two_mount_points_that_lead_to_each_other(rootfs: Path) -> None:
    for name, other in (("proc", "sys"), ("sys", "proc")):
        (rootfs / name).rmdir()
        (rootfs / name).symlink_to(other)
    assert [change.path for change in prepared(rootfs).changes] == ["/proc", "/sys"]


FILE_IN_THE_WAY = {
    "relative link out": (
        is_link_to("../../host/file"),
        "a symbolic link to '../../host/file' became an empty file",
    ),
    "absolute link": (
        is_link_to("/run/resolv.conf"),
        "a symbolic link to '/run/resolv.conf' became an empty file",
    ),
    "loop": (is_link_to("/etc/resolv.conf"), "a symbolic link to '/etc/resolv.conf' became an empty file"),
    "into proc": (
        is_link_to("/proc/self/mounts"),
        "a symbolic link to '/proc/self/mounts' became an empty file",
    ),
    "link inside": (is_link_to("hosts"), "a symbolic link to 'hosts' became a copy of the file it led to"),
    "fifo": (is_fifo, "a FIFO became an empty file"),
    "empty directory": (Path.mkdir, "a directory became an empty file"),
}


@pytest.mark.parametrize(("make", "detail"), FILE_IN_THE_WAY.values(), ids=FILE_IN_THE_WAY.keys())
def test_file_that_is_something_else_is_replaced(
    make: Callable[[Path], None], detail: str, rootfs: Path
) -> None:
    file = rootfs / "etc/resolv.conf"
    file.unlink()
    make(file)
    os.utime(rootfs / "etc", (TIME, TIME))
    assert prepared(rootfs).changes == (RootfsChange("/etc/resolv.conf", "replaced", detail),)
    assert file.is_file()
    assert not file.is_symlink()
    assert file.read_text() == ("the image's hosts\n" if "copy" in detail else "")
    assert (file.stat().st_mtime, file.parent.stat().st_mtime) == (TIME, TIME)


@pytest.mark.skipif(os.geteuid() != 0, reason="making a device takes root")
@pytest.mark.parametrize("name", ["etc/passwd", "dev"])
def test_device_in_the_way_is_replaced(name: str, rootfs: Path) -> None:
    path = rootfs / name
    path.rmdir() if path.is_dir() else path.unlink()
    os.mknod(path, 0o20666, os.makedev(1, 3))
    (change,) = prepared(rootfs).changes
    assert (change.path, change.action) == (f"/{name}", "replaced")
    assert change.detail.startswith("a character device became an empty")


def test_directory_with_files_in_place_of_a_file_is_refused(rootfs: Path) -> None:
    (rootfs / "etc/hosts").unlink()
    (rootfs / "etc/hosts").mkdir()
    (rootfs / "etc/hosts/mine").touch()
    with pytest.raises(BuildError, match="/etc/hosts of the image is a directory with files in it"):
        prepared(rootfs)
    assert (rootfs / "etc/hosts/mine").exists()


def test_etc_behind_a_link_is_used_where_it_leads_in_the_root(rootfs: Path) -> None:
    (rootfs / "usr").mkdir()
    (rootfs / "etc").rename(rootfs / "usr/etc")
    (rootfs / "etc").symlink_to("../../../usr/etc")
    (rootfs / "usr/etc/passwd").unlink()
    changes = prepared(rootfs).changes
    assert RootfsChange("/etc", "contained", "its links lead to '/usr/etc' in the root") in changes
    assert RootfsChange("/etc/passwd", "created", "an empty file") in changes
    assert (rootfs / "usr/etc/passwd").read_text() == ""


@pytest.mark.parametrize("target", ["/proc/self/root/etc", "/dev/fd", "/sys"])
def test_etc_among_the_kernels_files_is_refused(target: str, rootfs: Path) -> None:
    (rootfs / "etc").rename(rootfs / "gone")
    (rootfs / "etc").symlink_to(target)
    with pytest.raises(BuildError, match="where nothing of an image may"):
        prepared(rootfs)


def test_etc_that_loops_is_refused(rootfs: Path) -> None:
    (rootfs / "etc").rename(rootfs / "gone")
    (rootfs / "etc").symlink_to("etc")
    with pytest.raises(ArchiveRefused, match="more than 40 links, or in a circle"):
        prepared(rootfs)


# The working directory.


@pytest.mark.parametrize(
    ("cwd", "made"), [("/", None), ("/work", None), ("/srv/app", "srv/app"), ("/work/./x//y/", "work/x/y")]
)
def test_working_directory_is_made(cwd: str, made: str | None, rootfs: Path) -> None:
    changes = prepared(rootfs, cwd).changes
    if made is None:
        assert changes == ()
        return
    assert changes == (
        RootfsChange(cwd, "created", "an empty directory: the working directory of the image"),
    )
    assert oct((rootfs / made).stat().st_mode) == "0o40755"


@pytest.mark.parametrize("target", ["../../../host", "/host", "/../host/deep"])
def test_working_directory_behind_a_link_is_made_in_the_root(target: str, rootfs: Path) -> None:
    """CVE-2026-55686: it was created on the host."""
    (rootfs / "link").symlink_to(target)
    changes = prepared(rootfs, "/link/below").changes
    assert [change.action for change in changes] == ["contained", "created"]
    assert (rootfs / "host").is_dir()
    assert list(rootfs.glob("host/**/below"))


@pytest.mark.parametrize(
    ("cwd", "link"),
    [
        ("/proc/self/fd/7", None),
        ("/proc", None),
        ("/sys/kernel", None),
        ("/dev/fd/8", None),
        ("/work/link", "/proc/self/fd/7"),
        ("/work/link", "../proc/self"),
        ("/work/link/../../etc", "/proc/self"),
        ("/proc/self/root/../etc", None),
    ],
)
def test_working_directory_among_the_kernels_files_is_refused(
    cwd: str, link: str | None, rootfs: Path
) -> None:
    """CVE-2024-21626: a descriptor of the runtime is a directory of the host."""
    if link:
        (rootfs / "work/link").symlink_to(link)
    with pytest.raises(BuildError, match=r"lies in /(proc|sys|dev), where nothing of an image may"):
        prepared(rootfs, cwd)


@pytest.mark.parametrize(
    ("cwd", "message"),
    [
        ("/etc/hosts", "working directory '/etc/hosts' of the image is a file"),
        ("/etc/hosts/x", "cannot create "),
        ("/none/../x", "goes through a directory that is not there"),
    ],
)
def test_working_directory_that_can_not_be(cwd: str, message: str, rootfs: Path) -> None:
    with pytest.raises(BuildError, match=message):
        prepared(rootfs, cwd)


def test_working_directory_that_loops(rootfs: Path) -> None:
    (rootfs / "a").symlink_to("b")
    (rootfs / "b").symlink_to("a")
    with pytest.raises(ArchiveRefused, match="in a circle"):
        prepared(rootfs, "/a/x")


def test_working_directory_in_tmp_gets_a_mount_of_its_own(rootfs: Path) -> None:
    """Otherwise it would be missing: /tmp is empty at each start."""
    (rootfs / "tmp/build").mkdir(mode=0o700)
    (rootfs / "tmp/build/kept").touch()
    (rootfs / "link").symlink_to("/tmp/build")
    for cwd in ("/tmp/build", "/link"):
        made = prepared(rootfs, cwd)
        assert [mount.destination for mount in made.volumes] == ["/tmp/build"]
        assert "mode=700" in made.volumes[0].options
        assert (cwd, "hidden") in [(change.path, change.action) for change in made.changes]
    assert prepared(rootfs, "/tmp").volumes == ()
    assert len(prepared(rootfs, "/tmp/build", volumes=("/tmp/build",)).volumes) == 1


# Volumes.


def test_volume_hides_what_it_lies_on_with_the_same_mode_and_owner(rootfs: Path) -> None:
    data = rootfs / "var/lib/data"
    data.mkdir(parents=True)
    data.chmod(0o2750)
    if os.geteuid() == 0:
        os.chown(data, 5, 6)
    status = data.stat()
    (data / "file").touch()
    made = prepared(rootfs, volumes=("/var/lib/data", "/new"))
    owner = (f"uid={status.st_uid}", f"gid={status.st_gid}")
    assert made.volumes[0] == BaselineMount(
        "/var/lib/data",
        "tmpfs",
        "tmpfs",
        ("nosuid", "nodev", "size=1048576k", f"mode={status.st_mode & 0o7777:o}", *owner),
    )
    assert made.volumes[1].destination == "/new"
    assert (
        RootfsChange("/var/lib/data", "hidden", "the image's files in this volume are hidden by a tmpfs")
        in made.changes
    )
    assert (rootfs / "new").is_dir()


def test_volume_behind_links_is_mounted_where_they_lead(rootfs: Path) -> None:
    (rootfs / "var").mkdir()
    (rootfs / "var/run").symlink_to("../../../run")
    made = prepared(rootfs, volumes=("/var/run/app",))
    assert made.volumes[0].destination == "/run/app"
    assert (
        RootfsChange("/var/run/app", "contained", "its links lead to '/run/app' in the root") in made.changes
    )


@pytest.mark.parametrize("path", ["/proc/x", "/dev", "/sys", "/link"])
def test_volume_among_the_kernels_files_is_refused(path: str, rootfs: Path) -> None:
    (rootfs / "link").symlink_to("/proc/1")
    with pytest.raises(BuildError, match=r"volume .* lies in /"):
        prepared(rootfs, volumes=(path,))


def test_volume_that_is_the_root_or_a_file_is_refused(rootfs: Path) -> None:
    (rootfs / "root").symlink_to("/")
    with pytest.raises(BuildError, match="volume '/root' of the image leads to its root"):
        prepared(rootfs, volumes=("/root",))
    with pytest.raises(BuildError, match="volume '/etc/hosts' of the image is a file"):
        prepared(rootfs, volumes=("/etc/hosts",))
