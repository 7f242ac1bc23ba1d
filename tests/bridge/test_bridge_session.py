"""The bridge as people meet it: `sandwright run`, `sandwright bridge` and `sandwright shim-check`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridges import World, world
from sandwright import process

SANDWRIGHT = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
TOKEN = "sandbox-token-B-9d20ca"
POLICY = """\
schema: 1
method: bwrap
credentials:
  shims:
    show: {secrets: {SHOWN: "${SANDBOX_SHOWN}"}, allow: ["*"]}
    gh: {allow: ["pr *"]}
"""


@pytest.fixture
def place() -> Iterator[World]:
    with world() as made:
        (made.project / "sandbox.yaml").write_text(POLICY)
        made.tool("show", 'case $SHOWN in sandbox-*-B-*) echo B ;; *) echo none ;; esac; exit "$1"')
        made.tool("gh", "exit 0")
        yield made


def _sandwright(place: World, *argv: str, **environment: str) -> process.Result:
    # The compiled shim is the user's; all else that the command keeps is the world's.
    kept = os.environ.get("SANDWRIGHT_CACHE") or str(Path.home() / ".cache" / "sandwright")
    return process.run(
        *SANDWRIGHT, *argv, cwd=place.project, check=False, timeout=60,
        env={
            "PATH": f"{place.root / 'tools'}:{os.environ['PATH']}", "HOME": str(place.root / "home"),
            "PYTHONPATH": str(Path(__file__).parents[2] / "builder"), "SANDWRIGHT_CACHE": kept,
            "SANDWRIGHT_TRUST": "1", **environment,
        },
    )  # fmt: skip


@pytest.mark.needs("bwrap")
def test_run(place: World) -> None:
    result = _sandwright(place, "run", "--", "sh", "-c", "show 7; echo $?; env", SANDBOX_SHOWN=TOKEN)
    assert result.stdout.startswith(b"B\n7\n"), result.stderr
    assert result.status == 0
    assert TOKEN.encode() not in result.stdout
    assert (place.root / "home/.local/state/sandwright/bridge.jsonl").read_text().count(
        '"event": "call"'
    ) == 1


@pytest.mark.needs("bwrap")
def test_run_without_the_secret(place: World) -> None:
    result = _sandwright(place, "run", "--", "echo", "started")
    assert result.status == 125
    assert "none of SANDBOX_SHOWN, SANDBOX_SHOWN_FILE and SANDBOX_SHOWN_COMMAND is set" in result.stderr
    assert result.stdout == b""


@pytest.mark.needs("bwrap")
def test_bridge(place: World) -> None:
    assert _sandwright(place, "render").status == 0
    result = _sandwright(
        place, "bridge", "--", ".sandbox/bwrap/launch", "sh", "-c", "show 5", SANDBOX_SHOWN=TOKEN
    )
    assert (result.status, result.stdout) == (5, b"B\n"), result.stderr


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    "words", [("run", "--", "true"), ("bridge", "--", "true"), ("verify",)], ids=["run", "bridge", "verify"]
)
def test_a_strangers_shims_need_the_users_word(place: World, words: tuple[str, ...]) -> None:
    result = _sandwright(place, *words, SANDBOX_SHOWN=TOKEN, SANDWRIGHT_TRUST="")
    assert result.status not in (0, 12)
    assert "runs show on the host (*) with SANDBOX_SHOWN" in result.stderr
    assert not (place.root / "home/.local/state/sandwright/bridge.jsonl").exists()


@pytest.mark.parametrize(
    ("call", "status", "said"),
    [
        (["gh", "pr", "list", "-L", "3"], 0, "gh pr list --limit=3 --"),
        (["gh", "pr", "list", "--web"], 12, "the option '--web' is not let through"),
        (["gh", "api", "x"], 12, "the policy does not let"),
        (["id"], 12, "the policy names no shim id"),
        ([], 0, "gh (known): pr *"),
    ],
)
def test_shim_check(place: World, call: list[str], status: int, said: str) -> None:
    result = _sandwright(place, "shim-check", "--", *call)
    assert result.status == status
    assert said in result.text + result.stderr
