"""The number of the process that a sandbox must not see is unused inside, however high the host's are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sandwright import process
from sandwright.verify.host_process import MOST_INSIDE, host_process

FIRST_NUMBERS = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc")
"""The numbers of a new container: this process has number 1, and its children the next ones."""

OWN_SCRATCH = ("sh", "-c", 'mount -t tmpfs none /var/tmp && exec "$@"', "sh")
"""Root's directory there is on the host, and can't belong to this user."""

PROOF = """
import sys
from pathlib import Path
from support.proving import red
print(red("bwrap", "method: bwrap\\nschema: 1\\n", Path(sys.argv[1]), None, runs=False))
"""


def _run(script: str, *words: Path) -> str:
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    # A user who is root inside could not use root's /run/sandwright.
    own = {"XDG_RUNTIME_DIR": str(words[0].parent)} if words else {}
    made = process.run(
        *FIRST_NUMBERS, *OWN_SCRATCH, sys.executable, "-c", script, *map(str, words),
        timeout=120, check=False, env={**os.environ, "PYTHONPATH": path, **own},
    )  # fmt: skip
    assert made.status == 0, made.stderr
    return made.text


@pytest.mark.needs("unshare", "bwrap")
def test_the_probes_hold_where_the_host_s_numbers_are_those_inside(tmp_path: Path) -> None:
    assert _run(PROOF, tmp_path / "project") == "{}"


@pytest.mark.needs("unshare")
def test_the_number_is_above_those_inside() -> None:
    script = "from sandwright.verify.host_process import *\nwith host_process() as number: print(number)"
    assert int(_run(script)) >= MOST_INSIDE


def test_it_lives_as_long_as_it_is_probed() -> None:
    with host_process() as number:
        os.kill(number, 0)
        status = Path(f"/proc/{number}/status")
        assert not status.exists() or "State:\tZ" not in status.read_text()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
