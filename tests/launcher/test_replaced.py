"""Files that the host replaces by rename while a run starts, as `useradd` does with /etc/shadow."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.conftest import WAIT
from support.launchers import launcher_of

pytestmark = pytest.mark.needs("bwrap", "cc")

RUNS = 12


@pytest.fixture
def home() -> Iterator[Path]:
    """A home outside /tmp, because the sandbox has a separate /tmp."""
    made = Path(tempfile.mkdtemp(prefix="sandwright-test-", dir="/var/tmp"))
    yield made
    shutil.rmtree(made)


def test_a_hidden_file_that_the_host_replaces_while_a_run_starts(
    home: Path, program: Path, environ: dict[str, str]
) -> None:
    """The file is hidden again before the command starts: no run is refused, and none is ended."""
    (home / "p/.git").mkdir(parents=True)
    (home / "kept").mkdir()
    (home / "kept/key").write_text("secret")
    text = "schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT], deny: [~/kept/key]}\n"
    launcher_of(text, "bwrap", home / "out", project=home / "p").write_bytes(program.read_bytes())
    done = threading.Event()

    def replace() -> None:
        while not done.wait(0.005):
            (home / "kept/new").write_text("secret")
            (home / "kept/new").rename(home / "kept/key")

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        ended = [
            subprocess.run(
                [home / "out/launch", "sh", "-c", "exit 3"], env={**environ, "HOME": str(home)},
                stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT, check=False, cwd=home / "p",
            )
            for _ in range(RUNS)
        ]  # fmt: skip
    finally:
        done.set()
        thread.join()
    # bubblewrap itself may fail, and is then restarted at most three times.
    assert [each.returncode for each in ended if b"bwrap:" not in each.stderr] == [3] * sum(
        b"bwrap:" not in each.stderr for each in ended
    )
    assert sum(b"bwrap:" not in each.stderr for each in ended) > RUNS // 2
    assert not any(os.path.lexists(home / "p" / name) for name in (".vscode", ".bashrc"))
