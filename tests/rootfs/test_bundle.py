"""Writing bundles: the shared root, repeated and skipped steps, and the leftovers of a failure."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from sandwright.errors import ArchiveRefused, BuildError, HostError, IntegrityError, UsageError
from sandwright.render.baseline import BaselineMount
from sandwright.rootfs.bundles.assemble import bundle
from sandwright.rootfs.bundles.bundle import Bundle, write_bundle
from sandwright.rootfs.bundles.convert import BundleOptions
from sandwright.rootfs.images.source import open_image
from support import layouts, tars
from support.layouts import HELLO, Layout

OWNERS = os.geteuid() != 0
"""Whether bundles made here are rootless by default."""


def write(tmp_path: Path, *archives: bytes, config: dict[str, Any] | None = None, **more: Any) -> Bundle:
    """A bundle of a small image, in `tmp_path`."""
    source = tmp_path / "image"
    if not source.exists():
        layouts.simple(source, *archives, config=config)
    return write_bundle(open_image(source), tmp_path / "bundle", store=tmp_path / "store", **more)


def on_disk(made: Bundle) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((made.path / "config.json").read_text())
    return config


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Everything below a directory, with inode and change time: equal only if no file was touched."""
    return {str(path): (path.lstat().st_ino, path.lstat().st_ctime_ns) for path in folder.rglob("*")}


# The result on disk.


def test_bundle_is_a_config_over_a_shared_root(tmp_path: Path) -> None:
    made = write(tmp_path)
    image = open_image(tmp_path / "image")
    name = image.digest.replace(":", "-") + ("-rootless" if OWNERS else "")
    assert made.rootfs.path == tmp_path / "store" / name
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == sorted([name, f"{name}.json"])
    assert [path.name for path in made.path.iterdir()] == ["config.json"]
    config = on_disk(made)
    assert config == made.config
    assert config["root"] == {"path": f"../store/{name}", "readonly": True}
    assert (made.path / config["root"]["path"] / "bin/hello").is_file()
    assert config["process"]["args"] == ["/bin/hello"]


def test_root_is_out_of_reach_of_other_users(tmp_path: Path) -> None:
    """An image may hold setuid programs (CVE-2021-41091, CVE-2021-41103)."""
    os.umask(0)
    try:
        made = write(tmp_path)
    finally:
        os.umask(0o022)
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700


def test_root_path_holds_no_link(tmp_path: Path) -> None:
    """Runtimes refuse a root behind a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    layouts.simple(tmp_path / "image")
    made = write_bundle(
        open_image(tmp_path / "image"), tmp_path / "link/deep/bundle", store=tmp_path / "link/store"
    )
    path = made.path.resolve() / on_disk(made)["root"]["path"]
    assert str(path.resolve()) == os.path.normpath(path)


def test_named_user_is_found_in_the_image(tmp_path: Path) -> None:
    made = write(
        tmp_path, config={"Cmd": ["/bin/hello"], "User": "app"}, rootless=False if not OWNERS else None
    )
    expected = {"uid": 0, "gid": 0} if OWNERS else {"uid": 1000, "gid": 1001, "additionalGids": [2000]}
    assert on_disk(made)["process"]["user"] == expected
    assert "HOME=/home/app" in on_disk(made)["process"]["env"]


def test_unknown_user_is_an_error_and_writes_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no user 'nobody-here'"):
        write(tmp_path, config={"Cmd": ["/bin/hello"], "User": "nobody-here"})
    assert not (tmp_path / "bundle").exists()


def test_what_was_done_to_the_root_is_told_every_time(tmp_path: Path) -> None:
    hostile = tars.archive(tars.symlink(b"dev", b"/etc"), tars.symlink(b"etc/resolv.conf", b"/run/x"))
    first, second = (write(tmp_path, HELLO, hostile) for _ in range(2))
    told = {(change.path, change.action) for change in first.rootfs.changes}
    assert {("/dev", "replaced"), ("/etc/resolv.conf", "replaced"), ("/proc", "created")} <= told
    assert second.rootfs.changes == first.rootfs.changes
    assert (first.rootfs.fresh, second.rootfs.fresh) == (True, False)


def test_stripped_labels_are_told(tmp_path: Path) -> None:
    made = write(tmp_path, config={"Cmd": ["/bin/hello"], "Labels": {"dev.gvisor.internal": "x", "a": "b"}})
    assert made.stripped == ("dev.gvisor.internal",)
    assert on_disk(made)["annotations"].get("a") == "b"


def test_volumes_take_their_owners_from_the_image(tmp_path: Path) -> None:
    upper = tars.archive(tars.folder(b"data", mode=0o1770))
    made = write(tmp_path, HELLO, upper, config={"Cmd": ["/bin/hello"], "Volumes": {"/data": {}}})
    for each in (made, write(tmp_path)):
        (mount,) = (mount for mount in each.config["mounts"] if mount["destination"] == "/data")
        assert "mode=1770" in mount["options"]


# Repetition.


def test_second_time_does_nothing(tmp_path: Path) -> None:
    assert write(tmp_path).changed
    before = listing(tmp_path)
    again = write(tmp_path)
    assert not again.changed
    assert listing(tmp_path) == before


def test_other_command_changes_only_the_config(tmp_path: Path) -> None:
    made = write(tmp_path)
    inode = made.rootfs.path.stat().st_ino
    again = write(tmp_path, command=["/bin/hello", "you"])
    assert again.changed
    assert not again.rootfs.fresh
    assert on_disk(again)["process"]["args"] == ["/bin/hello", "you"]
    assert again.rootfs.path.stat().st_ino == inode


def test_two_bundles_of_an_image_share_its_root(tmp_path: Path) -> None:
    image = open_image(layouts.simple(tmp_path / "image"))
    one, two = (write_bundle(image, tmp_path / name, store=tmp_path / "store") for name in ("one", "two"))
    assert one.rootfs.path == two.rootfs.path
    assert one.rootfs.fresh
    assert not two.rootfs.fresh


def test_writable_root_is_the_bundles_own(tmp_path: Path) -> None:
    made = write(tmp_path, settings=BundleOptions(writable=True))
    assert on_disk(made)["root"] == {"path": "rootfs", "readonly": False}
    assert not (tmp_path / "store").exists()


def test_a_root_can_be_in_the_bundle(tmp_path: Path) -> None:
    """The runtime-spec permits it: config.json and root in one directory, which can be copied."""
    own = BundleOptions(embed_root=True)
    made = write(tmp_path, settings=own)
    assert on_disk(made)["root"] == {"path": "rootfs", "readonly": True}
    assert (made.path / "rootfs/bin/hello").is_file()
    assert not (tmp_path / "store").exists()
    assert not write(tmp_path, settings=own).changed
    other = open_image(layouts.simple(tmp_path / "other", HELLO, tars.archive(tars.folder(b"srv"))))
    with pytest.raises(HostError, match="is not the root file system that would be unpacked there"):
        write_bundle(other, made.path, store=tmp_path / "store", settings=own)
    (made.path / "rootfs.json").unlink()
    with pytest.raises(HostError, match="is not the root file system that would be unpacked there"):
        write(tmp_path, settings=own)
    assert (made.path / "rootfs/bin/hello").is_file(), "what another program unpacked is left alone"


# The caller's additions.


def test_mount_goes_where_the_image_has_a_place(tmp_path: Path) -> None:
    source = tmp_path / "project"
    source.mkdir()
    upper = tars.archive(tars.folder(b"srv"), tars.symlink(b"link", b"/srv"))
    mounts = (
        BaselineMount("/link", "bind", str(source), ("rbind", "ro")),
        BaselineMount("/tmp/made/at/start", "bind", str(source), ("rbind",)),
    )
    made = write(tmp_path, HELLO, upper, settings=BundleOptions(mounts=mounts))
    places = {mount["destination"] for mount in on_disk(made)["mounts"] if mount["source"] == str(source)}
    assert places == {"/srv", "/tmp/made/at/start"}


@pytest.mark.parametrize(
    ("destination", "source", "message"),
    [
        ("/nowhere", ".", "the image has no such path, and its root is shared"),
        ("relative", ".", "not an absolute, normalised path"),
        ("/srv/../x", ".", "not an absolute, normalised path"),
        ("/bin/hello", ".", "that is a file in the image"),
        ("/srv", "file", "that is a directory in the image"),
        ("/srv", "missing", "there is no"),
        ("/", ".", "not an absolute, normalised path below /"),
    ],
)
def test_mount_that_can_not_be(destination: str, source: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    upper = tars.archive(tars.folder(b"srv"))
    mount = BaselineMount(destination, "bind", str(tmp_path / source), ("rbind",))
    with pytest.raises(UsageError, match=message):
        write(tmp_path, HELLO, upper, settings=BundleOptions(mounts=(mount,)))
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("cwd", "message"),
    [
        ("/missing", "is nothing in the image"),
        ("/bin/hello", "is a file in the image"),
        ("/dev/fd/3", "where nothing"),
    ],
)
def test_working_directory_of_the_caller_must_be_there(cwd: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=message):
        write(tmp_path, settings=BundleOptions(cwd=cwd))
    made = write(tmp_path, settings=BundleOptions(cwd="/etc"))
    assert on_disk(made)["process"]["cwd"] == "/etc"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["/bin/none"], "the image has no program '/bin/none'"),
        (["hello-there"], "the image has no program 'hello-there'"),
        (["/etc/passwd"], "'/etc/passwd' is a file, not executable"),
        (["/bin"], "'/bin' is a directory"),
        (["/proc/self/exe"], "the program '/proc/self/exe' lies in /proc"),
        (["/sh"], "the program '/proc/self/exe' lies in /proc"),
    ],
)
def test_program_must_be_one_of_the_image(command: list[str], message: str, tmp_path: Path) -> None:
    """CVE-2019-5736: /proc/self/exe is the runtime's own binary."""
    upper = tars.archive(tars.symlink(b"sh", b"/proc/self/exe"))
    with pytest.raises(BuildError, match=message):
        write(tmp_path, HELLO, upper, command=command)
    assert not (tmp_path / "bundle").exists()
    for good in (["/bin/hello"], ["hello"], ["bin/hello"]):
        assert on_disk(write(tmp_path, command=good))["process"]["args"] == good


# Failures.


def test_wrong_layer_leaves_nothing_behind(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "image")
    layout.index(layout.image(HELLO))
    for file in (layout.path / "blobs/sha256").iterdir():
        if file.read_bytes().startswith(b"\x1f\x8b"):
            raw = bytearray(file.read_bytes())
            raw[len(raw) // 2] ^= 1
            file.write_bytes(raw)
    with pytest.raises((IntegrityError, ArchiveRefused)):
        write(tmp_path)
    assert list((tmp_path / "store").iterdir()) == []
    assert not (tmp_path / "bundle").exists()


def test_root_that_can_not_be_prepared_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(BuildError):
        write(tmp_path, config={"Cmd": ["/bin/hello"], "WorkingDir": "/proc/self/fd/3"})
    assert list((tmp_path / "store").iterdir()) == []


def test_full_disk_is_said_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(HostError, match="store: the disk is full"):
            write(tmp_path)
    assert list((tmp_path / "store").iterdir()) == []
    assert not (tmp_path / "bundle").exists()
    assert write(tmp_path).changed
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(HostError, match="bundle: the disk is full"):
            write(tmp_path, command=["/bin/hello", "again"])
    assert [path.name for path in (tmp_path / "bundle").iterdir()] == ["config.json"]
    assert on_disk(write(tmp_path))["process"]["args"] == ["/bin/hello"]


def test_record_that_is_damaged_is_made_again(tmp_path: Path) -> None:
    made = write(tmp_path)
    made.rootfs.path.with_name(f"{made.rootfs.path.name}.json").write_text("{")
    assert write(tmp_path).rootfs.fresh
    assert not write(tmp_path).rootfs.fresh


def test_a_link_in_place_of_a_root_is_none(tmp_path: Path) -> None:
    """A store may come with a project: the link's target, as `/`, would be the sandbox's root."""
    made = write(tmp_path).rootfs.path
    made.rename(tmp_path / "elsewhere")
    made.symlink_to(tmp_path / "elsewhere")
    again = write(tmp_path).rootfs
    assert again.fresh
    assert not again.path.is_symlink()
    record = made.with_name(f"{made.name}.json")
    record.rename(tmp_path / "record")
    record.symlink_to(tmp_path / "record")
    assert write(tmp_path).rootfs.fresh
    assert not record.is_symlink()
    assert (tmp_path / "elsewhere/bin/hello").is_file()


@pytest.mark.parametrize(
    "planted",
    [
        {"type": "bind", "source": "/", "options": ["rbind"]},
        {"type": "tmpfs", "source": "/", "options": ["nosuid", "nodev", "size=1048576k", "bind"]},
        {"type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "size=1048576k", "rbind"]},
        {"type": "tmpfs", "source": "tmpfs", "options": []},
    ],
)
def test_a_record_brings_no_mount_of_the_host(planted: dict[str, Any], tmp_path: Path) -> None:
    made = write(tmp_path, config={"Cmd": ["/bin/hello"], "Volumes": {"/data": {}}})
    record = made.rootfs.path.with_name(f"{made.rootfs.path.name}.json")
    document = json.loads(record.read_text())
    assert [mount.destination for mount in made.rootfs.volumes] == ["/data"]
    document["volumes"] = [{"destination": "/data", **planted}]
    record.write_text(json.dumps(document))
    with pytest.raises(HostError, match="its record has mounts that no image asks for"):
        write(tmp_path)


def test_a_store_that_came_with_a_project_is_refused(tmp_path: Path) -> None:
    """Git makes directories that other users may enter; our stores never are."""
    write(tmp_path)
    (tmp_path / "store").chmod(0o755)
    with pytest.raises(HostError, match=r"is open to other users and holds other things \(sha256-"):
        write(tmp_path)
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o755


def test_store_among_other_things_is_refused(tmp_path: Path) -> None:
    """The store's mode would have to change, which is the user's choice."""
    (tmp_path / "store").mkdir(mode=0o755)
    (tmp_path / "store/thesis.tex").touch()
    with pytest.raises(HostError, match=r"holds other things \(thesis.tex, …\)"):
        write(tmp_path)
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o755
    (tmp_path / "store/thesis.tex").unlink()
    assert write(tmp_path).changed


def _many(source: Path, store: Path, target: Path) -> None:
    write_bundle(open_image(source), target, store=store)


@pytest.mark.timeout(120)
def test_many_at_once_unpack_once(tmp_path: Path) -> None:
    source = layouts.simple(tmp_path / "image", HELLO, big())
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_many, args=(source, tmp_path / "store", tmp_path / f"bundle{number}"))
        for number in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(100)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert len(list((tmp_path / "store").iterdir())) == 2
    assert len(list(tmp_path.glob("bundle*/config.json"))) == 4


@pytest.mark.timeout(120)
def test_killed_at_any_moment_the_next_run_succeeds(tmp_path: Path) -> None:
    source = layouts.simple(tmp_path / "image", HELLO, big())
    context = multiprocessing.get_context("spawn")
    interrupted = 0
    for delay in (0.0, 0.005, 0.02, 0.05):
        worker = context.Process(target=_many, args=(source, tmp_path / "store", tmp_path / "bundle"))
        worker.start()
        limit = time.monotonic() + 30
        while not list(tmp_path.glob("store/.*.part")) and time.monotonic() < limit and worker.is_alive():
            time.sleep(0.001)
        time.sleep(delay)
        assert worker.pid
        os.kill(worker.pid, signal.SIGKILL)
        worker.join(30)
        interrupted += worker.exitcode == -signal.SIGKILL and not (tmp_path / "bundle").exists()
        for visible in tmp_path.glob("store/sha256-*[!n]"):
            assert (visible / "many/0999").is_file(), "a root is visible before it is complete"
        if (tmp_path / "bundle").exists():
            break
    assert interrupted, "no run was caught at work"
    made = write(tmp_path)
    assert sum(1 for _ in (made.rootfs.path / "many").iterdir()) == 1000
    assert len(list((tmp_path / "store").iterdir())) == 2, "what the killed ones left is removed"


def big() -> bytes:
    """A layer that takes some time."""
    files = [tars.file(b"many/%04d" % number, b"x" * 2000) for number in range(1000)]
    return tars.archive(tars.folder(b"many"), *files)


# Everything in one call.


def test_report_says_what_was_made(tmp_path: Path) -> None:
    source = layouts.simple(tmp_path / "image", config={"Cmd": ["/bin/hello"], "Labels": {"run.oci.x": "y"}})
    report = bundle(source, tmp_path / "bundle", store=tmp_path / "store")
    assert report.changed
    assert report.platform == "linux/amd64"
    assert report.command == ("/bin/hello",)
    assert report.stripped == ("run.oci.x",)
    assert report.sizes is None
    assert ("/proc", "created") in [(change.path, change.action) for change in report.changes]
    json.dumps(report.as_dict())
    assert not bundle(source, tmp_path / "bundle", store=tmp_path / "store").changed


def test_what_to_keep_goes_with_minimal(tmp_path: Path) -> None:
    source = layouts.simple(tmp_path / "image")
    with pytest.raises(UsageError, match="go with the programs of a minimal bundle"):
        bundle(source, tmp_path / "bundle", store=tmp_path / "store", keep=["/etc"])
