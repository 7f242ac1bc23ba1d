"""Reading Debian packages: well-formed ones are read; any other is an error that names the package.

Tests of image/deb.py.
Tests of rootfs/controlfields.py.
Tests of image/packagefile.py: size and SHA-256 of a package that is read.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.errors import ArchiveRefused, HostError, IntegrityError
from sandwright.image.packagefile import ExpectedDigest, open_package
from sandwright.rootfs.controlfields import parse_control
from support import debs
from support.debs import Member, deb, folder, promise
from support.thorough import examples

FILES = [folder("./"), folder("./usr/"), Member("./usr/hello", "hello\n", mode=0o755)]
NAME = "package thing 1.0-1 (amd64)"


def read(path: Path, promised: ExpectedDigest) -> tuple[dict[str, bytes], list[tuple[bytes, int, bytes]]]:
    with open_package(path, promised) as package:
        found = [(entry.path, entry.mode, b"".join(package.data.chunks())) for entry in package.data]
    return package.control, found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "thing.deb"


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_reads_every_compression(path: Path, suffix: str) -> None:
    raw = deb(FILES, suffix=suffix, files={"md5sums": "b1946ac92492d2347c6235b4d2611184  usr/hello\n"})
    path.write_bytes(raw)
    control, found = read(path, promise(raw))
    assert sorted(control) == ["control", "md5sums"]
    assert control["control"].startswith(b"Package: thing\nVersion: 1.0-1\n")
    assert found == [(b"", 0o755, b""), (b"usr", 0o755, b""), (b"usr/hello", 0o755, b"hello\n")]


@pytest.mark.needs("dpkg-deb")
def test_reads_what_dpkg_deb_makes(path: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(
        debs.control(Maintainer="N <n@example.invalid>", Description="x")
    )
    (tree / "usr").mkdir()
    (tree / "usr" / "hello").write_text("hello\n")
    process.run("dpkg-deb", "--root-owner-group", "--build", tree, path)
    _, found = read(path, promise(path.read_bytes()))
    assert [(name, content) for name, _, content in found] == [
        (b"", b""),
        (b"usr", b""),
        (b"usr/hello", b"hello\n"),
    ]


@pytest.mark.needs("dpkg-deb")
def test_dpkg_deb_reads_what_the_tests_make(path: Path) -> None:
    path.write_bytes(deb(FILES))
    listed = process.run("dpkg-deb", "--contents", path).text
    assert "-rwxr-xr-x builder/builders  6 2020-09-13" in listed


def test_a_member_that_begins_with_an_underscore_is_passed_over(path: Path) -> None:
    whole = deb(FILES)
    at = whole.index(b"control.tar")
    extra = debs.ar([("_gpgorigin", b"odd")]).removeprefix(b"!<arch>\n")
    raw = whole[:at] + extra + whole[at:]
    path.write_bytes(raw)
    assert read(path, promise(raw))[1][-1] == (b"usr/hello", 0o755, b"hello\n")


def test_the_filling_byte_at_the_end_may_be_missing(path: Path) -> None:
    lengths = set()
    for content in ("a", "ab" * 40, "abc" * 99, "x" * 1001):
        raw = deb([Member("./file", content)], suffix=".gz")
        lengths.add(raw[-1:] == b"\n")
        raw = raw.removesuffix(b"\n")
        path.write_bytes(raw)
        assert read(path, promise(raw))[1] == [(b"file", 0o644, content.encode())]
    assert True in lengths


def test_tells_how_much_was_read(path: Path) -> None:
    raw = deb(FILES)
    path.write_bytes(raw)
    told: list[int] = []
    with open_package(path, promise(raw), advance=told.append):
        pass
    assert sum(told) == len(raw)


def test_a_missing_file_is_the_machines_fault(path: Path) -> None:
    with pytest.raises(
        HostError, match=r"package thing 1\.0-1 \(amd64\): cannot read .*thing\.deb: No such file"
    ):
        read(path, promise(b""))


def cut(raw: bytes, at: int) -> bytes:
    return raw[:at]


MALFORMED = {
    "empty": (b"", f"{NAME}: it ends in the middle of an ar header"),
    "no ar": (b"PK\x03\x04 nothing of the kind", f"{NAME}: it is not an ar archive"),
    "no version": (
        debs.ar([("control.tar", b"")]),
        f"{NAME}: its first member is not 'debian-binary'",
    ),
    "another version": (
        debs.ar([("debian-binary", b"3.0\n")]),
        f"{NAME}: its format is b'3.0\\n', not 2.0",
    ),
    "members swapped": (
        debs.ar([("debian-binary", b"2.0\n"), ("data.tar", debs.tar(FILES))]),
        f"{NAME}: 'data.tar' stands where control.tar, .gz, .xz or .zst is expected",
    ),
    "bzip2": (
        debs.ar([("debian-binary", b"2.0\n"), ("control.tar.bz2", b"BZh9")]),
        f"{NAME}: 'control.tar.bz2' stands where control.tar, .gz, .xz or .zst is expected",
    ),
    "no control file": (
        debs.ar([("debian-binary", b"2.0\n"), ("control.tar", debs.tar([folder("./")]))]),
        f"{NAME}: its control archive has no file 'control'",
    ),
    "a member too many": (
        deb(FILES, suffix="") + debs.ar([("late", b"xx")]).removeprefix(b"!<arch>\n"),
        f"{NAME}: 'late' follows its data archive",
    ),
    "negative size": (
        deb(FILES, suffix="").replace(b"4         `\n", b"-4        `\n", 1),
        f"{NAME}: a member's ar header is malformed",
    ),
    "cut in the data": (
        deb(FILES, suffix="")[:-5000],
        None,
    ),
}


@pytest.mark.parametrize(("raw", "message"), MALFORMED.values(), ids=list(MALFORMED))
def test_malformed(path: Path, raw: bytes, message: str | None) -> None:
    path.write_bytes(raw)
    with pytest.raises(IntegrityError) as caught:
        read(path, promise(raw))
    assert NAME in str(caught.value)
    assert message is None or str(caught.value) == message


def test_a_codec_must_be_the_one_the_name_says(path: Path) -> None:
    raw = deb(FILES, suffix=".gz").replace(b"data.tar.gz ", b"data.tar.xz ")
    path.write_bytes(raw)
    with pytest.raises(
        ArchiveRefused, match=r"thing 1\.0-1 \(amd64\), data\.tar\.xz: is compressed with gzip"
    ):
        read(path, promise(raw))


HOSTILE = {
    "climbs": Member("../../etc/passwd", "x"),
    "climbs inside": Member("./usr/../../etc/passwd", "x"),
    "root is a link": Member("./", kind=tarfile.SYMTYPE, link="/etc"),
    "hard link climbs": Member("./a", kind=tarfile.LNKTYPE, link="./usr/../../etc/passwd"),
    "unknown type": Member("./a", kind=b"Z"),
}


@pytest.mark.parametrize("member", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_names_are_refused(path: Path, member: Member) -> None:
    raw = deb([folder("./"), member])
    path.write_bytes(raw)
    with pytest.raises(ArchiveRefused, match=r"package thing 1\.0-1 \(amd64\), data\.tar\.xz: "):
        read(path, promise(raw))


def test_an_absolute_name_is_taken_as_relative_to_the_root(path: Path) -> None:
    raw = deb([Member("/etc/motd", "x")])
    path.write_bytes(raw)
    assert read(path, promise(raw))[1] == [(b"etc/motd", 0o644, b"x")]


WHOLE = deb(FILES, suffix=".xz", files={"md5sums": "x" * 500})


@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.integers(0, 8 * len(WHOLE) - 1))
def test_any_flipped_bit_is_found_and_named(tmp_path: Path, at: int) -> None:
    """The checksum fails, whatever the reader of the damaged bytes has met before."""
    damaged = bytearray(WHOLE)
    damaged[at // 8] ^= 1 << at % 8
    path = tmp_path / "damaged.deb"
    path.write_bytes(damaged)
    with pytest.raises(
        IntegrityError, match=r"^package thing 1\.0-1 \(amd64\): its SHA-256 is [0-9a-f]{64}, the lock"
    ):
        read(path, promise(WHOLE))


@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(size=st.integers(0, len(WHOLE) - 1))
def test_any_cut_is_found_and_named(tmp_path: Path, size: int) -> None:
    path = tmp_path / "cut.deb"
    path.write_bytes(WHOLE[:size])
    expected = rf"^package thing 1\.0-1 \(amd64\): {size} bytes, the lock says {len(WHOLE)}$"
    with pytest.raises(IntegrityError, match=expected):
        read(path, promise(WHOLE))


def test_bytes_behind_the_package_are_found(path: Path) -> None:
    path.write_bytes(WHOLE + b"x")
    with pytest.raises(IntegrityError, match=f"{len(WHOLE) + 1} bytes, the lock says {len(WHOLE)}"):
        read(path, promise(WHOLE))


def test_control_paragraphs() -> None:
    text = "Package: thing\nDescription: short\n long\n .\n more\nnonsense\nDepends:  libc6 (>= 2.36) \n"
    assert parse_control(text) == {
        "Package": "thing",
        "Description": "short\n long\n .\n more",
        "Depends": "libc6 (>= 2.36)",
    }
