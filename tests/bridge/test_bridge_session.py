"""The bridge as people meet it: `sandwright run`, `sandwright bridge` and `sandwright shim-eval`.

Tests of bridge/check.py: `shim-eval`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright.errors import IntegrityError
from support.bridges import World, world
from support.waiting import eventually

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


@pytest.mark.needs("bwrap")
def test_run(place: World) -> None:
    result = place.sandwright("run", "--", "sh", "-c", "show 7; echo $?; env", SANDBOX_SHOWN=TOKEN)
    assert result.stdout.startswith(b"B\n7\n"), result.stderr
    assert result.status == 0
    assert TOKEN.encode() not in result.stdout
    assert (place.root / "home/.local/state/sandwright/bridge.jsonl").read_text().count(
        '"event": "call"'
    ) == 1


@pytest.mark.needs("bwrap")
def test_a_shared_temporary_directory() -> None:
    """A mount point there would stay behind on the host, so the directory appears below /dev."""
    gap = "{feature: filesystem.absent, method: bwrap, reason: a test}"
    with world("/var/tmp") as place:
        shared = f"filesystem: {{tmp: shared}}\naccept_gaps: [{gap}]\n"
        (place.project / "sandbox.yaml").write_text(POLICY + shared)
        place.tool("show", "echo B")
        # A socket that another test removes from /tmp between rendering and start is an error by design.
        for _ in range(20):
            result = place.sandwright("run", "--", "show", SANDBOX_SHOWN=TOKEN)
            if "was removed after this was rendered" not in result.stderr:
                break
        assert result.stdout == b"B\n", result.stderr
        assert not Path("/dev/.sandwright").exists()


@pytest.mark.needs("bwrap")
def test_calls_and_refusals_are_in_the_audit_log(place: World) -> None:
    log, denials = place.root / "home" / "audit", place.root / "home" / "denials"
    options = ("--audit", str(log), "--denials", str(denials))
    result = place.sandwright("run", *options, "--", "sh", "-c", "show 7; gh repo list", SANDBOX_SHOWN=TOKEN)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["event"] for each in lines] == ["start", "call", "refused", "exit"], result.stderr
    assert (lines[1]["program"], lines[1]["arguments"], lines[1]["status"]) == ("show", ["7"], 7)
    assert (lines[2]["by"], lines[2]["program"]) == ("bridge", "gh")
    assert TOKEN not in log.read_text() + denials.read_text()
    (told,) = (json.loads(line) for line in denials.read_text().splitlines())
    assert (told["kind"], told["what"], told["count"]) == ("bridge", "gh repo list", 1)
    assert (told["field"], "sandbox.yaml:6:" in told["source"]) == ("credentials.shims", True)
    assert f"refused: the call of gh repo list ({told['why']}), once: credentials.shims, " in result.stderr
    assert place.sandwright("verify-audit", str(log)).status == 0


@pytest.mark.needs("bwrap")
def test_a_refused_call_is_reported_while_the_run_goes_on(place: World) -> None:
    denials, seen = place.root / "home" / "denials", place.project / "seen"
    waits = "gh repo list; until [ -e seen ]; do sleep 0.05; done"
    watching = threading.Thread(target=_touch_behind, args=[denials, seen])
    watching.start()
    result = place.sandwright("run", "--denials", str(denials), "--", "sh", "-c", waits, SANDBOX_SHOWN=TOKEN)
    watching.join()
    assert result.status == 0, result.stderr
    (told,) = (json.loads(line) for line in denials.read_text().splitlines())
    assert (told["kind"], told["what"], told["count"]) == ("bridge", "gh repo list", 1)


def _touch_behind(first: Path, then: Path) -> None:
    """Make a file as soon as another one exists, within the time limit of a run."""
    eventually(first.exists, within=45)
    if first.exists():
        then.touch()


@pytest.mark.needs("bwrap")
def test_run_without_the_secret(place: World) -> None:
    result = place.sandwright("run", "--", "echo", "started")
    assert result.status == 125
    assert "none of SANDBOX_SHOWN, SANDBOX_SHOWN_FILE and SANDBOX_SHOWN_COMMAND is set" in result.stderr
    assert result.stdout == b""


@pytest.mark.needs("bwrap")
def test_bridge(place: World) -> None:
    assert place.sandwright("render").status == 0
    result = place.sandwright(
        "bridge", "--", ".sandbox/bwrap/launch", "sh", "-c", "show 5", SANDBOX_SHOWN=TOKEN
    )
    assert (result.status, result.stdout) == (5, b"B\n"), result.stderr


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("files", ["launch", "launch launch.plan", "all", "all, as a link"])
def test_bridge_starts_no_launcher_that_a_repository_brought(place: World, files: str) -> None:
    folder = place.project / ".sandbox" / "bwrap"
    if files.startswith("all"):
        assert place.sandwright("render").status == 0
    folder.mkdir(parents=True, exist_ok=True)
    for name in files.split() if not files.startswith("all") else ("launch",):
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text("#!/bin/sh\necho ran on the host\n")
        (folder / name).chmod(0o755)
    program = folder / "launch"
    if files == "all, as a link":
        program = place.project / "start"
        program.symlink_to(folder / "launch")
    result = place.sandwright("bridge", "--", str(program), "true", SANDBOX_SHOWN=TOKEN)
    assert b"ran on the host" not in result.stdout
    assert result.status == IntegrityError.exit_code, result.stderr
    assert "not what the policy renders to now" in result.stderr


@pytest.mark.needs("bwrap")
def test_bridge_compares_artifacts_rendered_elsewhere(place: World) -> None:
    out = place.root / "elsewhere"
    assert place.sandwright("render", "--out", str(out)).status == 0
    words = ("bridge", "--", str(out / "bwrap" / "launch"), "true")
    assert place.sandwright(*words, SANDBOX_SHOWN=TOKEN).status == 0
    with (out / "bwrap" / "args").open("ab") as file:
        file.write(b"--bind\0/\0/\0")
    assert place.sandwright(*words, SANDBOX_SHOWN=TOKEN).status == IntegrityError.exit_code


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    "words", [("run", "--", "true"), ("bridge", "--", "true"), ("verify",)], ids=["run", "bridge", "verify"]
)
def test_a_strangers_shims_need_the_users_word(place: World, words: tuple[str, ...]) -> None:
    result = place.sandwright(*words, SANDBOX_SHOWN=TOKEN, SANDWRIGHT_TRUST="")
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
    result = place.sandwright("shim-eval", "--", *call)
    assert result.status == status
    assert said in result.text + result.stderr


CHECKED = """\
schema: 1
method: bwrap
filesystem: {deny: [$PROJECT/secret]}
credentials:
  shims:
    git: {allow: ["push *", "fetch *", "ls-remote *"]}
    gh: {allow: ["pr *"]}
"""


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("git push origin main", ""),
        ("git fetch", ""),
        ("git push evil main", "is no remote that the bridge knows"),
        ("git push https://evil.example/r.git main", "is no remote that the bridge knows"),
        ("git push plain main", "is no remote that the bridge knows"),
        ("git push ssh main", "is no remote that the bridge knows"),
        ("git fetch origin main:refs/heads/main", "only refs below"),
        ("gh pr comment 1 -F open", ""),
        ("gh pr comment 1 -F secret", "the policy keeps the sandbox from"),
        ("gh pr comment 1 -F nothing", "No such file"),
        ("gh pr comment 1 -F link", "links are not followed"),
    ],
)
def test_shim_check_says_what_the_bridge_does(place: World, call: str, said: str) -> None:
    (place.project / "sandbox.yaml").write_text(CHECKED)
    place.git("init", "-q", "-b", "main")
    for name, url in (
        ("origin", "https://git.example/r.git"),
        ("plain", "http://git.example/r.git"),
        ("ssh", "git@git.example:r.git"),
    ):
        place.git("remote", "add", name, url)
    for name in ("open", "secret"):
        (place.project / name).write_text("text")
    (place.project / "link").symlink_to("open")
    result = place.sandwright("shim-eval", "--", *call.split())
    assert result.status == (12 if said else 0), result
    assert said in result.stderr
    if said:
        with place.bridge(CHECKED.partition("bwrap\n")[2]) as bridge:
            done = place.call(bridge, *call.split())
        assert done.status == 126
        assert said in done.stderr
