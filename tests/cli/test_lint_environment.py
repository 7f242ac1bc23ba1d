"""`lint` names variables whose paths cannot be written, and tokens that a shell's start-up files export.

Tests of policy/environment_remarks.py.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.standby import COMMAND as SANDWRIGHT

POLICY = """\
schema: 1
filesystem: {{read: [/], write: [$PROJECT]}}
environment: {{pass: ["...", TMPDIR, CARGO_HOME, "XDG_*", UNRELATED], set: {{UV_CACHE_DIR: {cache}}}}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "p"
    folder.mkdir(parents=True)
    (folder / "sandbox.yaml").write_text(POLICY.format(cache=f"{tmp_path}/cache"))
    return folder


def _lint(project: Path, **variables: str) -> list[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(project.parent), **variables}
    ended = subprocess.run(
        [*SANDWRIGHT, "lint"],
        cwd=project,
        env=environ,
        capture_output=True,
        timeout=120,
        check=False,
        text=True,
    )
    return ended.stdout.splitlines()


def test_directories_that_cannot_be_written(project: Path) -> None:
    variables = {
        "TMPDIR": "/tmp/user/1000",
        "CARGO_HOME": "/opt/cargo",
        "XDG_CACHE_HOME": f"{project}/cache",
        "XDG_STATE_HOME": f"{project.parent}/state",
        "PIP_CACHE_DIR": "/nowhere",  # not passed
        "UNRELATED": "/nowhere",
    }
    found = [line for line in _lint(project, **variables) if "programs fail to use" in line]
    named = {line.partition(" is /")[0].rpartition(" ")[2] for line in found}
    assert named == {"TMPDIR", "CARGO_HOME", "XDG_STATE_HOME", "UV_CACHE_DIR"}
    assert any(" CARGO_HOME is /opt/cargo, which cannot be written inside: " in line for line in found), found
    assert any(" TMPDIR is /tmp/user/1000, which is not there inside, " in line for line in found), found
    assert any("sandbox.yaml:3:" in line and " UV_CACHE_DIR is " in line for line in found), found
    assert not [line for line in _lint(project, TMPDIR="/tmp") if " TMPDIR is " in line]


def test_caches_of_a_preset_can_be_created(project: Path) -> None:
    text = "schema: 1\nextends: [build]\nenvironment: {set: {UV_CACHE_DIR: /tmp/uv, GOPATH: /nowhere}}\n"
    (project / "sandbox.yaml").write_text(text)
    found = [line for line in _lint(project) if "programs fail to use" in line]
    named = {line.partition(" is /")[0].rpartition(" ")[2] for line in found}
    assert named == {"UV_CACHE_DIR", "GOPATH"}
    assert all("sandbox.yaml:3:" in line for line in found), found


def test_tokens_that_a_shell_exports(project: Path) -> None:
    (project.parent / ".bashrc").write_text(
        "alias x=y\nexport GITHUB_TOKEN=abc EDITOR=vi\nexport EDITOR=vi\n"
    )
    (project.parent / ".zshrc").write_text("export EDITOR=vi\n")
    found = [line for line in _lint(project) if "can be read inside" in line]
    assert len(found) == 1
    assert "~/.bashrc exports GITHUB_TOKEN" in found[0]
    assert "abc" not in found[0]
