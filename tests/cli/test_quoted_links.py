"""No command quotes the target of a link that lies in place of a document in a stranger's project.

Tests of reading.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from support.standby import COMMAND as SANDWRIGHT

CALLS = {
    "facts": ("render", "--facts", "LINK"),
    "facts for lint": ("lint", "--facts", "LINK"),
    "facts for explain": ("explain", "write", "x", "--facts", "LINK"),
    "a record": ("learn", "--merge", "LINK", "--", "true"),
    "a policy": ("lint", "LINK.yaml"),
    "a profile": ("lint", "LINK.json"),
    "a profile of seatbelt": ("lint", "LINK.sb"),
    "seccomp": ("seccomp-eval", "LINK", "read"),
    "claims": ("verify", "--subject", "true", "--claims", "LINK"),
    "tests of an image": ("lint-image", "layout", "--structure", "LINK"),
    "an audit log": ("verify-audit", "LINK"),
    "rows": ("fleet", "--rows", "LINK", "--", "true"),
}
SECRETS = ("hushed: hushed\n", "schema: hushed\n", '{"hushed": "hushed"}\n', '{"schema": "hushed"}\n')


@pytest.mark.parametrize("call", CALLS)
def test_a_fault_of_a_link_quotes_nothing(call: str, tmp_path: Path) -> None:
    """A stranger's link can lead to your secrets, and CI shows the faults of a pull request to everybody."""
    words = [word.replace("LINK", "link") for word in CALLS[call]]
    link = tmp_path / next(word for word in words if word.startswith("link"))
    (tmp_path / "sandbox.yaml").write_text("schema: 1\nmethod: bwrap\n")
    (tmp_path / "layout").mkdir()
    (tmp_path / "layout" / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    for text in SECRETS:
        (tmp_path / "secret").write_text(text)
        link.unlink(missing_ok=True)
        link.symlink_to("secret")
        ended = _sandwright(tmp_path, *words)
        assert ended.returncode not in (0, 1), ended.stdout + ended.stderr
        assert "hushed" not in ended.stdout + ended.stderr
        assert link.name in ended.stdout + ended.stderr


@pytest.mark.parametrize("call", CALLS)
def test_a_fault_behind_a_link_quotes_nothing(call: str, tmp_path: Path) -> None:
    """The link is a directory on the way to the document."""
    (tmp_path / "sandbox.yaml").write_text("schema: 1\nmethod: bwrap\n")
    (tmp_path / "layout").mkdir()
    (tmp_path / "layout" / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "folder").symlink_to("elsewhere")
    words = [word.replace("LINK", "folder/link") for word in CALLS[call]]
    file = next(word for word in words if word.startswith("folder/"))
    for text in SECRETS:
        (tmp_path / file).write_text(text)
        ended = _sandwright(tmp_path, *words)
        assert ended.returncode not in (0, 1), ended.stdout + ended.stderr
        assert "hushed" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("link", ["images", "images/x"])
def test_a_fault_in_a_linked_directory_of_images_quotes_nothing(link: str, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / ("x" if link == "images" else "")
    target.mkdir(parents=True)
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(tmp_path / "elsewhere")
    for text in SECRETS:
        (target / "image.yaml").write_text(text)
        ended = _sandwright(tmp_path, "dockerfile", "--images", "images", "x")
        assert ended.returncode != 0
        assert "image.yaml" in ended.stderr
        assert "hushed" not in ended.stdout + ended.stderr


def test_a_file_is_quoted(tmp_path: Path) -> None:
    """The control: without a link, the error quotes the wrong word."""
    (tmp_path / "facts.json").write_text(SECRETS[3])
    (tmp_path / "x.sb").write_text(SECRETS[0])
    assert "hushed" in _sandwright(tmp_path, "lint", "x.sb").stdout
    (tmp_path / "sandbox.yaml").write_text("schema: 1\nmethod: bwrap\n")
    assert "hushed" in _sandwright(tmp_path, "render", "--facts", "facts.json").stderr


def test_a_valid_profile_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.sb").write_text("(version 1)\n(deny default)\n")
    (tmp_path / "link.sb").symlink_to("real.sb")
    assert _sandwright(tmp_path, "lint", "link.sb").returncode == 0


def _sandwright(cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SANDWRIGHT, *words],
        cwd=cwd,
        env={**os.environ, "HOME": str(cwd), "SANDWRIGHT_TRUST": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
