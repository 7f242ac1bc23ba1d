"""The pytest in a user namespace runs the lab's tests of a normal user, and reports the result of each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import labworker

pytestmark = [
    pytest.mark.needs("unshare", "ip"),
    pytest.mark.skipif(os.geteuid() == 0, reason="root makes network namespaces without a user namespace"),
]

TESTS = Path(__file__).parents[1]

CONFTEST = f"""
import sys
import pytest
sys.path.insert(0, {str(TESTS)!r})
from support import labworker

def pytest_configure(config):
    labworker.configure(config)

@pytest.fixture(scope="session")
def network_lab():
    assert labworker.is_inside()

@pytest.fixture(scope="module")
def unclean(network_lab):
    yield
    raise AssertionError("fixture ends with an error")
"""

INNER = """
import os, pathlib, subprocess, time
import pytest
from support import labworker

def capabilities(status):
    return [line.split()[1] for line in status.splitlines() if line.startswith("CapEff")]

def test_rights(network_lab):
    status = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
    assert capabilities(status) == ["0000000000000000"]
    assert capabilities(pathlib.Path("/proc/self/status").read_text()) == ["0000000000281400"]
    assert f"Uid:\\t{os.getuid()}\\t" in status and os.getuid() != 0
    labworker.run("ip", "link", "add", "one", "type", "veth")
    assert subprocess.run(["ip", "link", "del", "one"]).returncode != 0

def test_outside():
    assert not labworker.is_inside()
    assert capabilities(pathlib.Path("/proc/self/status").read_text()) == ["0000000000000000"]

def test_fails(network_lab):
    assert [1, 2] == [1, 3]

def test_skips(network_lab):
    pytest.skip("for a reason")

@pytest.mark.timeout(2)
def test_hangs(network_lab):
    time.sleep(60)

def test_dies(network_lab):
    os._exit(3)

def test_after(network_lab):
    pass

def test_unclean(unclean):
    pass
"""


def test_each_end_is_reported(tmp_path: Path) -> None:
    if not labworker.is_startable():
        pytest.skip("this machine refuses user namespaces")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_inner.py").write_text(INNER)
    words = ["-q", "-rA", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "-c", "/dev/null"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "test_inner.py"],
        cwd=tmp_path, text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    found = {
        line.partition(" - ")[0]
        for line in done.stdout.splitlines()
        if line.startswith(("PASSED", "FAILED", "ERROR", "SKIPPED"))
    }
    assert found == {
        "PASSED test_inner.py::test_rights",
        "PASSED test_inner.py::test_outside",
        "FAILED test_inner.py::test_fails",
        "SKIPPED [1] test_inner.py:25: for a reason",
        "FAILED test_inner.py::test_hangs",
        "FAILED test_inner.py::test_dies",
        "PASSED test_inner.py::test_after",
        "PASSED test_inner.py::test_unclean",
        "ERROR test_inner.py::test_unclean",
    }, done.stdout
    reasons = (
        "assert [1, 2] == [1, 3]",
        "Timeout (>2.0s)",
        "lab has ended",
        "fixture ends with an error",
    )
    assert [each for each in reasons if each not in done.stdout] == []
