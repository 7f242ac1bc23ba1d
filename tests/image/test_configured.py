"""Images whose packages configure themselves: mmdebstrap gets the locked packages, and is not trusted.

Tests of image/configured.py.
Tests of image/residue.py: traces of the building machine from maintainer scripts.
Tests of image/scratch.py: no content of a mount is removed.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import os
import stat
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Timer

import pytest

from sandwright import process
from sandwright.errors import (
    ArchiveRefused,
    BuildError,
    CommandFailed,
    FetchError,
    HostError,
    IntegrityError,
    LockError,
    ToolMissing,
)
from sandwright.host import Binfmt, MachineFacts, collect_host
from sandwright.image import configured
from sandwright.image.build import build_images
from sandwright.image.cache import Cache, default_cache
from sandwright.image.configured import DebianSystem, write_system
from sandwright.image.definition import load_catalogue
from sandwright.image.fetcher import Fetcher
from sandwright.image.layer import writing_layer
from sandwright.image.layout import staging
from sandwright.image.mirrors import find_mirrors
from sandwright.image.repository import write_repository
from sandwright.image.residue import is_residue
from sandwright.image.tree import PackageContents
from sandwright.registry.failure import Cancelled
from sandwright.rootfs.tar.entry import EntryKind, TarEntry
from support import debs
from support.debs import Member, folder, link, source
from support.processtrees import naming
from support.smallworld import contents, document
from support.thorough import THOROUGH
from support.waiting import eventually

EPOCH = debs.TIME + 1000
STATUS = "Package: thing\nStatus: install ok installed\nVersion: 1.0-1\n\n"
ROOT = Path(__file__).resolve().parent.parent.parent
MODE = "root" if os.geteuid() == 0 else "unshare"


@pytest.fixture
def facts() -> MachineFacts:
    return dataclasses.replace(collect_host(), machine="x86_64")


@pytest.fixture
def system(tmp_path: Path) -> DebianSystem:
    thing = source(tmp_path, debs.deb([Member("./usr/bin/thing")]))
    return DebianSystem(
        "bookworm", "amd64", [thing], EPOCH, exclude=["/usr/share/doc/*"], include=["/usr/share/doc/*/c"]
    )


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Replace mmdebstrap by a program of the test; the files that it needs are in its directory."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")

    def install(script: str) -> Path:
        program = place / "mmdebstrap"
        program.write_text(f"#!/bin/sh\nhere={place}\n{script}\n")
        program.chmod(0o755)
        return place

    return install


def run(
    tmp_path: Path, system: DebianSystem, facts: MachineFacts, *, cancelled: Event | None = None
) -> tuple[PackageContents, bytes]:
    """Write the system into a layer; return the findings, and the layer."""
    out = tmp_path / "out"
    stop = cancelled or Event()
    with ThreadPoolExecutor(2) as pool, staging(out) as area:
        with writing_layer(area, pool, stop) as writer:
            found = write_system(
                system,
                writer,
                facts=facts,
                scratch=area.path,
                cancelled=stop,
                keep=lambda path: path == b"etc/passwd",
            )
        return found, (area.path / writer.layer.blob.name).read_bytes()


Giving = Callable[..., None]


@pytest.fixture
def giving(stand_in: Callable[[str], Path]) -> Giving:
    """Let the stand-in return these members, and run `more`."""

    def give(members: Sequence[Member], more: str = "", status: str = STATUS) -> None:
        place = stand_in(f'cat "$here/tar"; {more}')
        (place / "tar").write_bytes(debs.tar([*members, Member("./var/lib/dpkg/status", status)]))

    return give


def test_what_it_is_asked_for(
    tmp_path: Path, stand_in: Callable[[str], Path], system: DebianSystem, facts: MachineFacts
) -> None:
    place = stand_in('printf "%s\\n" "$@" > "$here/argv"; env | sort > "$here/env"; cat "$here/tar"')
    (place / "tar").write_bytes(debs.tar([Member("./var/lib/dpkg/status", STATUS)]))
    os.environ["DEBIAN_FRONTEND"] = "leaks"
    try:
        run(tmp_path, system, facts)
    finally:
        del os.environ["DEBIAN_FRONTEND"]
    argv = (place / "argv").read_text().splitlines()
    assert argv[:4] == [f"--mode={MODE}", "--variant=essential", "--architectures=amd64", "--include=thing"]
    assert "--dpkgopt=path-exclude=/usr/share/doc/*" in argv
    assert argv.index("--dpkgopt=path-exclude=/usr/share/doc/*") < argv.index(
        "--dpkgopt=path-include=/usr/share/doc/*/c"
    )
    assert argv[-3:-1] == ["bookworm", "-"]
    scratch = f"{tmp_path}/out/.building-" if MODE == "root" else "/"
    assert argv[-1].startswith(f"deb [trusted=yes] copy:{scratch}")
    variables = dict(line.split("=", 1) for line in (place / "env").read_text().splitlines())
    assert {key: variables[key] for key in ("LC_ALL", "TZ", "HOME", "SOURCE_DATE_EPOCH")} == {
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "HOME": "/nonexistent",
        "SOURCE_DATE_EPOCH": str(EPOCH),
    }
    assert "DEBIAN_FRONTEND" not in variables


def test_what_it_gives_is_written_without_the_residue(
    tmp_path: Path, giving: Giving, system: DebianSystem, facts: MachineFacts
) -> None:
    members = [
        folder("./"),
        folder("./dev"),
        Member("./dev/null", kind=tarfile.CHRTYPE, device=(1, 3)),
        folder("./etc"),
        Member("./etc/apt/sources.list", "deb copy:/home/me"),
        Member("./etc/machine-id", "0123"),
        Member("./etc/passwd", "root:x:0:0::/:/bin/sh\n"),
        Member("./etc/passwd-", "old"),
        Member("./usr/young", mtime=EPOCH + 9),
        Member("./usr/su", "x", mode=0o4755),
        Member("./usr/su2", kind=tarfile.LNKTYPE, link="./usr/su"),
        Member("./usr/labelled", pax={"SCHILY.xattr.security.selinux": "a", "SCHILY.xattr.user.mine": "b"}),
        link("./usr/link", "su"),
        folder("./var/log"),
        Member("./var/log/dpkg.log", "today"),
    ]
    giving(members)
    found, packed = run(tmp_path, system, facts)
    assert found.contents[b"etc/passwd"] == b"root:x:0:0::/:/bin/sh\n"
    tree = {member.path: member for member in debs.read_tar(gzip.decompress(packed))}
    assert set(tree) == {"dev", "etc", "etc/machine-id", "etc/passwd", "usr/young", "usr/su", "usr/su2"} | {
        "usr/labelled",
        "usr/link",
        "var/log",
        "var/lib/dpkg/status",
    }
    assert tree["etc/machine-id"].data == b""
    assert tree["usr/young"].mtime == EPOCH
    assert tree["usr/su"].mode == 0o4755
    assert tree["usr/su2"].link == "usr/su"
    assert tree["usr/labelled"].pax == {"SCHILY.xattr.user.mine": "b"}
    assert {path.decode() for path in found.nodes} == set(tree)


RESIDUE = {
    "etc/apt/apt.conf.d/70debconf": False,
    "etc/apt/apt.conf.d/99mmdebstrap": True,
    "etc/apt/preferences.d": True,
    "etc/apt": False,
    "etc/group-": True,
    "etc/ssl/private-": False,
    "var/cache": False,
    "var/cache/apt/archives/partial": True,
    "var/cache/debconf/config.dat": False,
    "var/cache/debconf/config.dat-old": True,
    "var/lib/dpkg/info/thing.list": False,
    "var/lib/dpkg/lock": True,
    "var/lib/dpkg/status-old": True,
    "tmp": False,
    "tmp/x/y": True,
    "usr/lib/python3/__pycache__/a.pyc": False,
}


@pytest.mark.parametrize(("path", "expected"), RESIDUE.items())
def test_residue(path: str, expected: bool) -> None:
    assert is_residue(TarEntry(path.encode(), EntryKind.FILE), ["thing"]) is expected


def test_with_apt_its_own_configuration_stays() -> None:
    assert not is_residue(TarEntry(b"etc/apt/preferences.d", EntryKind.DIRECTORY), ["apt"])
    assert is_residue(TarEntry(b"etc/apt/sources.list.d/x", EntryKind.FILE), ["apt"])


def test_its_failure_is_told_with_what_it_said(
    tmp_path: Path, giving: Giving, system: DebianSystem, facts: MachineFacts
) -> None:
    giving([], more="echo 'E: cannot do it' >&2; exit 25")
    with pytest.raises(CommandFailed, match=rf"(?s)mmdebstrap --mode={MODE} .* 25\n *\| E: cannot do it"):
        run(tmp_path, system, facts)
    assert list((tmp_path / "out").iterdir()) == []


def test_its_failure_goes_before_what_it_left_out(
    tmp_path: Path, stand_in: Callable[[str], Path], system: DebianSystem, facts: MachineFacts
) -> None:
    stand_in("echo 'E: no space' >&2; exec >&-; sleep 0.5; exit 3")
    with pytest.raises(CommandFailed, match=r"exit status 3\n *\| E: no space"):
        run(tmp_path, system, facts)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configured, "TIMEOUT", 0.5)


@pytest.mark.usefixtures("impatient")
def test_it_may_not_take_for_ever(
    tmp_path: Path, stand_in: Callable[[str], Path], system: DebianSystem, facts: MachineFacts
) -> None:
    stand_in("echo waiting >&2; sleep 60")
    begin = time.monotonic()
    with pytest.raises(CommandFailed, match=r"did not end within 0\.5 s\n *\| waiting"):
        run(tmp_path, system, facts)
    assert time.monotonic() - begin < 50


@pytest.mark.usefixtures("impatient")
def test_it_may_take_longer_under_emulation(
    tmp_path: Path, stand_in: Callable[[str], Path], system: DebianSystem, facts: MachineFacts
) -> None:
    """Installing arm64 packages with a kernel came within three minutes of the limit on a busy machine."""
    stand_in("echo waiting >&2; sleep 60")
    foreign = dataclasses.replace(system, architecture="arm64")
    with pytest.raises(CommandFailed, match=r"did not end within 2 s\n"):
        run(tmp_path, foreign, dataclasses.replace(facts, binfmt=(QEMU,)))


def test_it_is_ended_when_nobody_wants_it_any_more(
    tmp_path: Path, stand_in: Callable[[str], Path], system: DebianSystem, facts: MachineFacts
) -> None:
    place = stand_in("""trap 'touch "$here/ended"; exit 1' TERM; sleep 60 & wait""")
    cancelled = Event()
    Timer(0.7, cancelled.set).start()
    with pytest.raises((Cancelled, CommandFailed)):
        run(tmp_path, system, facts, cancelled=cancelled)
    assert (place / "ended").exists()


HOSTILE = {
    "climbs": (Member("../../etc/passwd", "x"), ArchiveRefused),
    "root is a link": (Member("./", kind=tarfile.SYMTYPE, link="/"), ArchiveRefused),
    "whiteout": (Member("./etc/.wh.passwd"), BuildError),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=list(HOSTILE))
def test_what_it_gives_is_not_trusted(
    tmp_path: Path,
    giving: Giving,
    system: DebianSystem,
    facts: MachineFacts,
    hostile: tuple[Member, type[Exception]],
) -> None:
    """CVE-2026-24843: a tar stream that comes back from an environment with foreign code."""
    member, error = hostile
    giving([member])
    with pytest.raises(error):
        run(tmp_path, system, facts)
    assert list((tmp_path / "out").iterdir()) == []


def test_an_archive_that_ends_early(
    tmp_path: Path, stand_in: Callable[[str], Path], system: DebianSystem, facts: MachineFacts
) -> None:
    place = stand_in('head -c 1000 "$here/tar"')
    (place / "tar").write_bytes(debs.tar([Member("./a", "x" * 4000)]))
    with pytest.raises(IntegrityError, match="mmdebstrap's archive: ends"):
        run(tmp_path, system, facts)


STATES = {
    "missing": ("", r"thing 1\.0-1 is missing"),
    "half": (
        STATUS.replace("ok installed", "ok half-configured"),
        r"thing 1\.0-1 is install ok half-configured, 1\.0-1",
    ),
    "another version": (STATUS.replace("1.0-1", "1.0-2"), r"thing 1\.0-1 is install ok installed, 1\.0-2"),
    "one too many": (STATUS + STATUS.replace("thing", "guest"), "guest is not in the lock"),
}


@pytest.mark.parametrize("state", STATES.values(), ids=list(STATES))
def test_exactly_the_locked_packages_must_be_installed(
    tmp_path: Path, giving: Giving, system: DebianSystem, facts: MachineFacts, state: tuple[str, str]
) -> None:
    status, message = state
    giving([], status=status)
    with pytest.raises(
        BuildError, match=f"mmdebstrap installed something else than the lock names: {message}"
    ):
        run(tmp_path, system, facts)


def test_without_mmdebstrap(
    tmp_path: Path, system: DebianSystem, facts: MachineFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandwright.process.find", lambda _: None)
    with pytest.raises(ToolMissing, match="mmdebstrap is not installed; apt install mmdebstrap"):
        run(tmp_path, system, facts)


QEMU = Binfmt("qemu-aarch64", enabled=True, interpreter="/usr/bin/qemu-aarch64-static", fix_binary=True)


@pytest.mark.parametrize(
    "binfmt", [(), (dataclasses.replace(QEMU, fix_binary=False),)], ids=["none", "without flag"]
)
def test_a_foreign_architecture_needs_an_emulator(
    tmp_path: Path, system: DebianSystem, facts: MachineFacts, binfmt: tuple[Binfmt, ...]
) -> None:
    foreign = dataclasses.replace(system, architecture="arm64")
    with pytest.raises(HostError, match="programs for arm64 don't run on this amd64 machine: no emulator"):
        run(tmp_path, foreign, dataclasses.replace(facts, binfmt=binfmt))


def test_without_rights(tmp_path: Path, system: DebianSystem, facts: MachineFacts) -> None:
    bare = dataclasses.replace(facts, uid=1000, max_user_namespaces=0)
    with pytest.raises(
        HostError, match="mmdebstrap needs root here, because unprivileged user namespaces are"
    ):
        run(tmp_path, system, bare)


def test_without_root_a_user_namespace_is_used(
    tmp_path: Path, stand_in: Callable[[str], Path], system: DebianSystem, facts: MachineFacts
) -> None:
    place = stand_in('echo "$1" > "$here/mode"; pwd > "$here/cwd"; cat "$here/tar"')
    (place / "tar").write_bytes(debs.tar([Member("./var/lib/dpkg/status", STATUS)]))
    user = dataclasses.replace(
        facts,
        uid=1000,
        max_user_namespaces=1000,
        unprivileged_user_namespaces=True,
        apparmor_restricts_user_namespaces=False,
    )
    run(tmp_path, system, user)
    assert (place / "mode").read_text() == "--mode=unshare\n"
    assert not (place / "cwd").read_text().startswith(str(tmp_path / "out"))


def test_the_repository(tmp_path: Path, system: DebianSystem) -> None:
    (thing,) = system.sources
    thing.path.chmod(0o600)
    write_repository(tmp_path / "repository", [thing], suite="bookworm", architecture="amd64")
    files = {
        str(path.relative_to(tmp_path / "repository")) for path in (tmp_path / "repository").rglob("*.deb")
    }
    assert files == {"pool/thing.deb"}
    offered = tmp_path / "repository/pool/thing.deb"
    assert stat.S_IMODE(offered.stat().st_mode) & 0o444 == 0o444
    raw = offered.read_bytes()
    listed = (tmp_path / "repository/dists/bookworm/main/binary-amd64/Packages").read_text()
    assert listed == (
        "Package: thing\nVersion: 1.0-1\nArchitecture: amd64\nMaintainer: Nobody <nobody@example.invalid>\n"
        f"Filename: pool/thing.deb\nSize: {len(raw)}\nSHA256: {hashlib.sha256(raw).hexdigest()}\n"
    )


def test_a_damaged_package_does_not_reach_the_repository(tmp_path: Path, system: DebianSystem) -> None:
    (thing,) = system.sources
    os.truncate(thing.path, 200)
    with pytest.raises(IntegrityError, match=r"^package thing 1\.0-1 \(amd64\): 200 bytes"):
        write_repository(tmp_path / "repository", [thing], suite="bookworm", architecture="amd64")


def mounts(place: Path) -> set[str]:
    """The mount points, except those of other tests: scratch directories, and the stores of engines."""
    points = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    stores = (
        "/var/lib/containers/",
        "/tmp/sandwright-",
        "/tmp/sw-",
        "/dev/shm/sandwright-",
        "/run/",
        "/var/run/",
    )
    others = ("/tmp/pytest-of-", "/var/tmp/sandwright-", *stores)
    elsewhere = {each for each in points if each.startswith(others) or "/scratch/sandwright-" in each}
    return points - {each for each in elsewhere if not each.startswith(f"{place}/")}


CHILD = """\
import os, sys
from pathlib import Path
from sandwright.image.build import build_images
from sandwright.image.fetcher import Fetcher
from sandwright.image.cache import Cache, default_cache
from sandwright.image.definition import load_catalogue
from sandwright.image.mirrors import find_mirrors
supply = Fetcher(Cache(default_cache(os.environ)), lambda: find_mirrors(None, os.environ))
build_images(
    load_catalogue(Path(sys.argv[1])), ["debian"], output=Path(sys.argv[2]), supply=supply,
    platforms=[sys.argv[3]], frozen=True,
)
"""


@pytest.mark.slow
@pytest.mark.needs("mmdebstrap")
@pytest.mark.skipif(os.geteuid() != 0, reason="only as root does mmdebstrap mount parts of the machine")
def test_killed_while_the_machine_is_mounted_in_it(tmp_path: Path) -> None:
    """All started processes and mounts end with the build, although no process could clean up."""
    before = mounts(tmp_path)
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "builder")}
    argv = [sys.executable, "-c", CHILD, str(ROOT / "images"), str(tmp_path), collect_host().platform]
    with process.start(*argv, env=variables) as child:
        end = time.monotonic() + 120
        while not any(b"dpkg" in line for line in naming(f"{tmp_path}/images/.building-").values()):
            if child.poll() is not None or time.monotonic() > end:
                pytest.skip("the packages of debian can't be had")
            time.sleep(0.2)
        assert mounts(tmp_path) == before
        child.kill()
        child.wait(20)
        eventually(lambda: not naming(str(tmp_path)), within=20)
    assert naming(str(tmp_path)) == {}
    assert mounts(tmp_path) == before
    with staging(tmp_path / "images"):
        pass
    assert list((tmp_path / "images").iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.needs("mmdebstrap")
@pytest.mark.skipif(not THOROUGH, reason="it takes two minutes; README's digests are compared each time")
def test_debian_is_reproducible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own image, for this machine's platform, built twice under different circumstances."""
    host = collect_host()
    if not host.is_root and not host.user_namespaces:
        pytest.skip("mmdebstrap needs root or user namespaces")
    catalogue = load_catalogue(ROOT / "images")
    supply = Fetcher(Cache(default_cache(os.environ)), lambda: find_mirrors(None, os.environ))

    def build(output: Path) -> tuple[str, Path]:
        try:
            (built,) = build_images(
                catalogue, ["debian"], output=output, supply=supply, platforms=[host.platform], frozen=True
            )
        except (FetchError, LockError) as error:
            pytest.skip(f"the packages of debian can't be had: {error}")
        return built.images[host.platform].manifest.digest, built.layout

    first, layout = build(tmp_path / "first")
    monkeypatch.setenv("TZ", "Pacific/Chatham")
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o077)
    try:
        second, _ = build(tmp_path / "second")
    finally:
        os.umask(before)
    assert first == second
    tree = contents(layout, first)
    assert tree["usr/bin/su"].mode == 0o4755
    assert tree["etc/resolv.conf"].data == b""
    assert not any(path.startswith("dev/") for path in tree)
    assert tree["etc/hostname"].data == b""
    here = (str(tmp_path).encode(), str(ROOT).encode())
    told = [path for path, member in tree.items() if any(word in member.data for word in here)]
    assert told == []
    assert document(layout, first)["layers"]


def test_a_program_that_writes_on_and_on_is_late() -> None:
    """It may also be cancelled: its output does not delay that."""
    with open("/dev/zero", "rb") as endless:  # noqa: PTH123
        output = configured._Output(endless, time.monotonic() - 1, Event())
        with pytest.raises(configured._Late):
            output.read(1)
        cancelled = Event()
        cancelled.set()
        with pytest.raises(Cancelled):
            configured._Output(endless, time.monotonic() + 100, cancelled).read(1)
