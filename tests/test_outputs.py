"""Files that a caller names are not written through a link that a sandbox may have made.

Tests of outputs.py.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandwright import outputs
from sandwright.errors import HostError
from sandwright.outputs import append_output, write_output

WAYS = ["relative", "absolute", "absolute through a link"]


def _named(way: str, project: Path, file: str) -> str:
    (project.parent / "to").symlink_to(project)
    return {"relative": file, "absolute": f"{project}/{file}"}.get(way, f"{project.parent}/to/{file}")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "sandbox.yaml").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("mine")
    monkeypatch.chdir(made)
    return made


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("write", [write_output, append_output])
def test_no_directory_is_a_link(project: Path, way: str, write: Callable[[str, bytes], None]) -> None:
    (project / "reports").symlink_to("../other")
    for file in ("reports/file", "reports/new/file"):
        with pytest.raises(HostError, match=r"reports is a symbolic link to \.\./other"):
            write(_named(way, project, file), b"theirs")
        (project.parent / "to").unlink()
    assert [each.read_text() for each in (project.parent / "other").iterdir()] == ["mine"]


@pytest.mark.parametrize("way", WAYS)
def test_a_file_in_new_directories(project: Path, way: str) -> None:
    file = _named(way, project, "reports/./new//file")
    for content in (b"one", b"two"):
        write_output(file, content)
        assert (project / "reports/new/file").read_bytes() == content
    append_output(file, b" three")
    assert (project / "reports/new/file").read_bytes() == b"two three"
    assert [each.name for each in (project / "reports/new").iterdir()] == ["file"]


def test_a_link_in_the_place_of_the_file(project: Path) -> None:
    (project / "file").symlink_to("../other/file")
    with pytest.raises(HostError, match="file is a symbolic link"):
        append_output("file", b"theirs")
    write_output("file", b"report")
    assert (project / "file").read_bytes() == b"report"
    assert (project.parent / "other/file").read_text() == "mine"


def test_a_fifo_is_written_to(project: Path) -> None:
    os.mkfifo("fifo")
    with pytest.raises(HostError, match=r"cannot write .*: No such device or address"):
        write_output("fifo", b"nobody reads")
    reader = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
    write_output("fifo", b"report")
    assert os.read(reader, 100) == b"report"
    os.close(reader)
    assert [each.name for each in project.iterdir() if each.is_fifo()] == ["fifo"]


def test_a_fifo_that_is_never_read_ends_with_an_error(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program inside can hold one open."""
    monkeypatch.setattr(outputs, "FIFO_PATIENCE", 0.2)
    os.mkfifo("fifo")
    reader = os.open("fifo", os.O_RDWR)
    for write in (write_output, append_output):
        with pytest.raises(HostError, match="cannot write "):
            write("fifo", b"x" * (1 << 20))
    assert (project / "fifo").is_fifo()
    os.close(reader)


def test_a_fifo_that_is_read_slowly_gets_everything(project: Path) -> None:
    os.mkfifo("fifo")
    reader = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    content = bytes(range(256)) * 4096
    with ThreadPoolExecutor(1) as pool:

        def read_all() -> bytes:
            select.select([reader], [], [])
            return b"".join(iter(lambda: os.read(reader, 1000), b""))

        read = pool.submit(read_all)
        write_output("fifo", content)
        assert read.result(60) == content
    os.close(reader)


@pytest.mark.skipif(os.geteuid() != 0, reason="making devices takes root")
def test_a_device_stays(project: Path) -> None:
    """As root, `--output /dev/null` would replace the device for the whole system."""
    os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod("disk", stat.S_IFBLK | 0o600, os.makedev(7, 250))
    write_output(f"{project}/null", b"report")
    with pytest.raises(HostError, match="neither a file nor a character device"):
        write_output("disk", b"report")
    assert (project / "null").is_char_device()
    assert (project / "disk").is_block_device()


def test_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    write_output("/dev/stdout", b"report\n")
    assert Path("/dev/stdout").is_symlink()
    assert capfd.readouterr().out == "report\n"


def test_what_cant_be_written(project: Path) -> None:
    for file in ("sandbox.yaml/file", "../other", ""):
        with pytest.raises(HostError, match="cannot write "):
            write_output(file, b"")
    assert [each.name for each in project.iterdir()] == ["sandbox.yaml"]
