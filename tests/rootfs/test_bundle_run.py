"""Bundles under the installed runtimes: runc, crun, runsc. They start, and their restrictions hold inside.

The image contains only this machine's busybox, so that the same one runs everywhere.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest

import sandwright
from sandwright import process
from sandwright.render.baseline import BaselineMount
from sandwright.rootfs.bundles.bundle import Bundle, write_bundle
from sandwright.rootfs.bundles.convert import BundleOptions
from sandwright.rootfs.images.source import open_image
from support import layouts, tars

BUSYBOX = "/bin/busybox"
LIMIT = 90.0

pytestmark = [
    pytest.mark.needs("busybox"),
    pytest.mark.skipif(os.geteuid() != 0, reason="these bundles are for root"),
    pytest.mark.timeout(180),
]

RUNC = pytest.param("runc", marks=pytest.mark.needs("runc"))
CRUN = pytest.param("crun", marks=pytest.mark.needs("crun"))
RUNSC = pytest.param("runsc", marks=pytest.mark.needs("runsc"))
ALL = pytest.mark.parametrize("runtime", [RUNC, CRUN, RUNSC])


def image_with(*members: bytes) -> bytes:
    """A layer with busybox, two accounts, and a test's additions."""
    programs = [
        tars.symlink(b"bin/%s" % name, b"busybox") for name in (b"sh", b"cat", b"id", b"env", b"touch")
    ]
    return tars.archive(
        tars.folder(b"bin"),
        tars.file(b"bin/busybox", Path(BUSYBOX).read_bytes(), mode=0o755),
        *programs,
        tars.folder(b"etc"),
        tars.file(b"etc/passwd", b"root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n"),
        tars.file(b"etc/group", b"root:x:0:\napp:x:1001:\nextra:x:2000:app\n"),
        tars.folder(b"home"),
        tars.folder(b"home/app", uid=1000, gid=1001),
        *members,
    )


def make(tmp_path: Path, *members: bytes, config: dict[str, Any] | None = None, **more: Any) -> Bundle:
    source = layouts.simple(
        tmp_path / "image", image_with(*members), config={"Cmd": ["/bin/sh"], **(config or {})}
    )
    return write_bundle(open_image(source), tmp_path / "bundle", store=tmp_path / "store", **more)


def start(runtime: str, made: Bundle, tmp_path: Path) -> process.Result:
    """Run a bundle to its end, and leave nothing behind."""
    name = f"sandwright-test-{uuid.uuid4().hex}"
    words = [runtime, "--root", str(tmp_path / "state")]
    if runtime == "runsc":
        words += ["--platform=ptrace", "--ignore-cgroups", "--network=none"]
    argv = [*words, "run", "--bundle", str(made.path), name]
    if runtime == "crun" and _hybrid():
        argv = _without_second_hierarchy(argv)
    try:
        # An empty input, and not /dev/null: runsc gives its standard input to the command's user.
        return process.run(*argv, stdin=b"", timeout=LIMIT, check=False)
    finally:
        process.run(*words, "delete", "--force", name, timeout=30, check=False)


def _hybrid() -> bool:
    return "cgroup2 /sys/fs/cgroup/unified" in Path("/proc/self/mounts").read_text()


def _without_second_hierarchy(argv: list[str]) -> list[str]:
    """crun refuses cgroups v1 beside a v2 hierarchy; it gets a view without the second."""
    return ["unshare", "-m", "sh", "-c", f"umount /sys/fs/cgroup/unified && exec {shlex.join(argv)}"]


def shell(text: str) -> list[str]:
    return ["/bin/sh", "-c", text]


@ALL
def test_bundle_starts_and_passes_the_exit_code_on(runtime: str, tmp_path: Path) -> None:
    result = start(runtime, make(tmp_path, command=shell("echo started; exit 7")), tmp_path)
    assert (result.status, result.text) == (7, "started"), result.stderr


@ALL
def test_what_holds_inside(runtime: str, tmp_path: Path) -> None:
    """Each line of the script prints the result of an attempt; every denial has an attempt that works."""
    script = """
    touch /denied 2>&1
    touch /tmp/allowed && echo tmp-writable
    cat /proc/self/status | while read name value; do case $name in
        CapInh:|CapPrm:|CapEff:|CapBnd:|CapAmb:) echo $name$value;; NoNewPrivs:) echo $name$value;; esac; done
    env | while read line; do case $line in HOME=*|PATH=*) echo $line;; esac; done
    cat /proc/sys/kernel/hostname
    [ "$$" = 1 ] && echo first-process
    """
    lines = start(runtime, make(tmp_path, command=shell(script)), tmp_path).text.splitlines()
    assert lines[0] == "touch: /denied: Read-only file system"
    assert {"tmp-writable", "first-process", "HOME=/root"} <= set(lines)
    assert "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" in lines
    sets = {line for line in lines if line.startswith("Cap")}
    assert {line.partition(":")[0] for line in sets} >= {"CapInh", "CapPrm", "CapEff", "CapBnd"}
    assert all(line.endswith(":0000000000000000") for line in sets), lines
    if runtime != "runsc":  # gVisor of 2022 answers neither
        assert "NoNewPrivs:1" in lines
        assert "sandbox" in lines


@ALL
@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("", "uid=0(root) gid=0(root)"),
        ("app", "uid=1000(app) gid=1001(app) groups=2000(extra)"),
        ("1000:7", "uid=1000(app) gid=7"),
        ("4711", "uid=4711 gid=0(root)"),
    ],
)
def test_identity(runtime: str, user: str, expected: str, tmp_path: Path) -> None:
    result = start(runtime, make(tmp_path, config={"User": user}, command=["/bin/id"]), tmp_path)
    assert result.text.startswith(expected), result


@ALL
def test_working_directory_environment_and_volume(runtime: str, tmp_path: Path) -> None:
    config = {"WorkingDir": "/srv/app", "Env": ["A=b c"], "Volumes": {"/data": {}}}
    script = (
        "echo $PWD; echo $A; touch /data/x && echo volume-writable; cat /data/kept 2>/dev/null || echo hidden"
    )
    kept = (tars.folder(b"data"), tars.file(b"data/kept", b"image"))
    result = start(runtime, make(tmp_path, *kept, config=config, command=shell(script)), tmp_path)
    assert result.text.splitlines() == ["/srv/app", "b c", "volume-writable", "hidden"], result.stderr


@ALL
def test_image_with_links_where_runtimes_mount(runtime: str, tmp_path: Path) -> None:
    """The class of CVE-2019-19921, CVE-2025-31133 and CVE-2026-41579, end to end."""
    (tmp_path / "host").mkdir()
    hostile = [
        tars.symlink(b"proc", b"/etc"),
        tars.symlink(b"dev", os.fsencode(tmp_path / "host")),
        tars.symlink(b"sys", b"../../../../../.."),
        tars.symlink(b"tmp", b"/tmp"),
        tars.symlink(b"etc/resolv.conf", os.fsencode(tmp_path / "host/resolv.conf")),
        tars.symlink(b"escape", os.fsencode(tmp_path / "host")),
    ]
    assert str(tmp_path).startswith("/tmp/"), "so that the working directory lies below a mount"
    made = make(
        tmp_path,
        *hostile,
        config={"WorkingDir": "/escape/work"},
        command=shell("cat /proc/self/comm; echo x > /dev/null && touch /tmp/x && echo fine; echo $PWD"),
    )
    result = start(runtime, made, tmp_path)
    assert result.text.splitlines()[:2] == ["cat", "fine"], result.stderr
    assert result.text.splitlines()[2] in ("/escape/work", str(tmp_path / "host/work"))
    assert list((tmp_path / "host").iterdir()) == []


@ALL
def test_host_directory_is_mounted(runtime: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "in").write_text("from the host")
    mounts = (BaselineMount("/home/app", "bind", str(project), ("rbind", "rw")),)
    script = "cat /home/app/in; echo back > /home/app/out"
    made = make(tmp_path, settings=BundleOptions(mounts=mounts, command=tuple(shell(script))))
    assert start(runtime, made, tmp_path).text == "from the host"
    assert (project / "out").read_text() == "back\n"


@ALL
def test_no_start_changes_the_shared_root(runtime: str, tmp_path: Path) -> None:
    made = make(tmp_path, command=shell("touch /tmp/x"))
    before = {path: path.lstat().st_ctime_ns for path in made.rootfs.path.rglob("*")}
    for _ in range(2):
        assert start(runtime, made, tmp_path)
    assert {path: path.lstat().st_ctime_ns for path in made.rootfs.path.rglob("*")} == before


@pytest.mark.needs("runc", "setpriv")
def test_rootless_bundle_of_another_user(tmp_path: Path) -> None:
    """uid 1000 does everything: unpack, write and run."""
    as_user = ("setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(sandwright.__file__).parents[1])}
    script = "id; touch /denied 2>&1; touch /tmp/x && echo fine; cat /proc/self/uid_map"
    with tempfile.TemporaryDirectory(prefix="sandwright-rootless-") as folder:
        home = Path(folder)
        layouts.simple(home / "image", image_with(), config={"Cmd": ["/bin/sh"], "User": "app"})
        for path in (home, *home.rglob("*")):
            os.chown(path, 1000, 1000)
        code = f"""
import json
from pathlib import Path
from sandwright.rootfs.bundles.assemble import bundle
report = bundle(Path("image"), Path("bundle"), store=Path("store"), command={shell(script)!r})
print(json.dumps(report.notes))
"""
        made = process.run(*as_user, sys.executable, "-c", code, cwd=home, timeout=60, env=environment)
        assert any("maps one id" in note for note in json.loads(made.text))
        name = f"sandwright-test-{uuid.uuid4().hex}"
        runc = ("runc", "--root", str(home / "state"), "run", "--bundle", str(home / "bundle"), name)
        result = process.run(*as_user, *runc, cwd=home, timeout=LIMIT, check=False, env=environment)
    lines = result.text.splitlines()
    assert lines[0].startswith("uid=0(root) gid=0(root)"), result
    assert lines[1] == "touch: /denied: Read-only file system"
    assert lines[2] == "fine"
    assert lines[3].split() == ["0", "1000", "1"]
