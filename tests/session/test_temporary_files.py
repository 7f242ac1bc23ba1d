"""What the host executes or obeys is never in the directory of temporary files, which a sandbox may share.

With `filesystem.tmp: shared`, or with TMPDIR in a project, a program inside could replace it.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sandwright.change.compare import compare_policies
from sandwright.change.policies import read_pair
from sandwright.change.trial import witnesses
from sandwright.host import collect_host
from sandwright.methods import registry
from sandwright.runtime.preflight import check_runtime
from sandwright.runtime.registry import RUNTIMES
from sandwright.session.request import RunRequest
from sandwright.verify.command import verify_policy

_OBEYED = ("--bundle", "--root", "--runroot", "--data-root", "--exec-root")
"""Options behind which a program finds what decides over it."""

_OBEYED_VARIABLES = ("XDG_RUNTIME_DIR", "CONTAINERS_CONF")


@pytest.fixture
def place() -> Iterator[Path]:
    """A new directory outside of /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="sandwright-test-") as made:
        yield Path(made)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory of temporary files with a short path, as sockets are below."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="sw-") as made:
        yield Path(made)


@pytest.fixture
def started(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Gives a line for each start of a program that lies in TMPDIR, or obeys a file there."""
    monkeypatch.setenv("TMPDIR", str(shared))
    monkeypatch.setattr("tempfile.tempdir", None)
    seen: list[tuple[Sequence[str], Mapping[str, str]]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, argv: Sequence[str], **options: Any) -> None:
            seen.append((tuple(map(str, argv)), options.get("env") or os.environ))
            super().__init__(argv, **options)

    monkeypatch.setattr(subprocess, "Popen", Recorded)

    def found() -> list[str]:
        assert seen, "nothing was started"
        return [line for argv, env in seen for line in _obeyed(argv, env, f"{shared}/")]

    return found


def _obeyed(argv: Sequence[str], env: Mapping[str, str], shared: str) -> Iterator[str]:
    if argv[0].startswith(shared):
        yield f"executes {argv[0]}"
    for option, value in itertools.pairwise(argv):
        if option in _OBEYED and value.startswith(shared):
            yield f"{argv[0]} obeys {option} {value}"
    named = (name for name in _OBEYED_VARIABLES if env.get(name, "").startswith(shared))
    yield from (f"{argv[0]} obeys {name}" for name in named)


_PROGRAMS = [
    pytest.param(name, marks=pytest.mark.needs(name)) for name in ("bwrap", "runc", "runsc", "podman")
]


@pytest.mark.parametrize("program", _PROGRAMS)
def test_a_trial_sandbox(program: str, started: Callable[[], list[str]]) -> None:
    name = {"runc": "oci", "runsc": "gvisor"}.get(program, program)
    registry.backend(name).preflight(collect_host())
    assert started() == []


@pytest.mark.parametrize("name", _PROGRAMS)
def test_a_runtimes_trial(name: str, started: Callable[[], list[str]]) -> None:
    host = collect_host()
    check_runtime(RUNTIMES[name], host.platform, host, threading.Event())
    assert started() == []


@pytest.mark.needs("bwrap")
def test_the_sandboxes_of_verify(started: Callable[[], list[str]], place: Path) -> None:
    file = place / "sandbox.yaml"
    file.write_text("schema: 1\nmethod: bwrap\n")
    verify_policy(RunRequest([], policy=str(file)), "bwrap")
    assert started() == []


@pytest.mark.needs("bwrap")
def test_the_sandboxes_of_a_diff(
    started: Callable[[], list[str]], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not in ~/.cache either, which many policies let a sandbox write."""
    home = place / "home"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, text in (("old", ""), ("sandbox", "filesystem: {deny: [$PROJECT/x]}\n")):
        (home / f"project/{name}.yaml").write_text(f"schema: 1\nmethod: bwrap\n{text}")
    old, new = (str(home / f"project/{name}.yaml") for name in ("old", "sandbox"))
    pair = read_pair(old, new, policy="", revisions=False, environ=dict(os.environ))
    real = pair.resolve()
    executed: list[str] = []
    start = subprocess.Popen

    class Recorded(start):  # type: ignore[misc,valid-type]
        def __init__(self, argv: Sequence[str], **options: Any) -> None:
            executed.append(str(argv[0]))
            super().__init__(argv, **options)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    witnesses(pair, real, compare_policies(*real, ("bwrap",)), "bwrap")
    launchers = [each for each in executed if each.endswith("/launch")]
    assert len(launchers) >= 2
    assert [each for each in launchers if not each.startswith(f"{home}/.cache/sandwright/")] == []
    assert started() == []
