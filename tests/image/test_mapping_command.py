"""`sandwright verify-mapping` as users call it.

Tests of cli/mapping.py.
"""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path

import pytest

from sandwright import process
from support import mappedimages
from support.layouts import simple
from support.standby import COMMAND as SANDWRIGHT
from support.tars import archive, file, folder

pytestmark = [
    pytest.mark.needs("runc", "busybox", "unshare"),
    pytest.mark.skipif(os.getuid() != 0, reason="starts containers of several users"),
    pytest.mark.timeout(180),
]


def prove(*words: str, output: Path) -> process.Result:
    return process.run(
        *SANDWRIGHT, "verify-mapping", *words, "--output", str(output), timeout=120, check=False
    )


def test_an_image_that_maps(tmp_path: Path) -> None:
    layout = mappedimages.alpine_like(tmp_path / "build" / "images" / "mapped")
    assert layout.is_dir()
    result = prove("mapped", "--runtime", "runc", output=tmp_path / "build")
    assert result.status == 0, result.stderr
    rows = re.findall(r"^ (\S.*?) +(pass|fail) *$", result.text, re.MULTILINE)
    assert len(rows) == 14
    assert {verdict for _, verdict in rows} == {"pass"}
    assert "a uid that another account has" in dict(rows)


def test_one_that_only_looks_like_it(tmp_path: Path) -> None:
    layout = mappedimages.alpine_like(tmp_path, program=b'#!/bin/sh\nshift\nexec "$@"\n')
    result = prove(str(layout), "--runtime", "runc", output=tmp_path / "build")
    assert result.status == 12
    assert "runc: a high uid: uid: 0, not 100000; " in result.text
    assert re.search(r"does not map its user: \d+ of 14 starts", result.stderr)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--runtime", "lxc"], 64, "no runtime 'lxc'; there are runc, runsc, docker, podman"),
        ([], 11, "the image has no config.init"),
    ],
    ids=["a runtime that there isn't", "an image without it"],
)
def test_what_is_refused(tmp_path: Path, words: list[str], status: int, message: str) -> None:
    if words:
        layout = mappedimages.alpine_like(tmp_path / "image")
    else:
        plain = archive(folder(b"etc"), file(b"etc/passwd", b""))
        layout = simple(tmp_path / "image", plain, config={"Cmd": ["/bin/sh"]})
    result = prove(str(layout), *words, output=tmp_path / "build")
    assert result.status == status, result.stderr
    assert message in result.stderr


@pytest.mark.parametrize(("options", "status"), [(("--init",), 0), ((), 125)], ids=["with", "without"])
def test_a_bundle_has_the_capabilities_only_when_told(
    tmp_path: Path, options: tuple[str, ...], status: int
) -> None:
    """The maker of the bundle decides, whatever the name of the image's entrypoint."""
    layout = mappedimages.alpine_like(tmp_path / "image")
    words = ("bundle", str(layout), "--output", str(tmp_path), "--bundle", str(tmp_path / "bundle"))
    process.run(*SANDWRIGHT, *words, *options, timeout=60)
    runc = ("runc", "--root", str(tmp_path / "state"))
    name = f"sandwright-usermap-{uuid.uuid4().hex[:12]}"
    try:
        ran = process.run(*runc, "run", "--bundle", tmp_path / "bundle", name, timeout=60, check=False)
        assert ran.status == status, ran.stderr
        assert ("needs the capability SETGID" in ran.stderr) == (status == 125)
    finally:
        process.run(*runc, "delete", "--force", name, timeout=60, check=False)


def test_an_image_that_is_not_there(tmp_path: Path) -> None:
    result = prove("nothing", output=tmp_path)
    assert result.status == 64
    assert "there is no image 'nothing'" in result.stderr
