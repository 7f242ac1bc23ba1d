"""Files that the host executes, reads as settings or writes by name are not in the temporary directory.

A sandbox may share that: with `filesystem.tmp: shared`, or with TMPDIR in a project, a program inside could
replace it, or put a link there.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sandwright import process, user_dirs
from sandwright.change.compare import compare_policies
from sandwright.change.policies import read_pair
from sandwright.change.trial import witnesses
from sandwright.errors import HostError
from sandwright.host import collect_host
from sandwright.methods import registry
from sandwright.policy.collect import collect_facts
from sandwright.policy.load import layer, run_layer
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.runtime.preflight import check_runtime
from sandwright.runtime.registry import RUNTIMES
from sandwright.runtime.scratch import scratch_directory
from sandwright.session.request import RunRequest
from sandwright.verify.command import verify_policy
from sandwright.verify.verdict import Verdict
from sandwright.verify.work.probe import work_probes
from sandwright.verify.work.prove import prove_work
from session.conftest import SANDWRIGHT
from support import labworker
from support.standby import COMMAND

_OBEYED = ("--bundle", "--root", "--runroot", "--data-root", "--exec-root")
"""Options whose value is a file that controls a program."""

_OBEYED_VARIABLES = ("XDG_RUNTIME_DIR", "CONTAINERS_CONF")


@pytest.fixture
def place() -> Iterator[Path]:
    """A new directory outside of /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="sandwright-test-") as made:
        yield Path(made)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A temporary directory with a short path, for sockets below it."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="sw-") as made:
        yield Path(made)


@pytest.fixture
def started(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Yields a line for each program in TMPDIR or controlled by a file there, and for each created name."""
    monkeypatch.setenv("TMPDIR", str(shared))
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    seen: list[tuple[Sequence[str], Mapping[str, str]]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, argv: Sequence[str], **options: Any) -> None:
            seen.append((tuple(map(str, argv)), options.get("env") or os.environ))
            super().__init__(argv, **options)

    monkeypatch.setattr(subprocess, "Popen", Recorded)

    def found() -> list[str]:
        assert seen, "nothing was started"
        obeyed = [line for argv, env in seen for line in _obeyed(argv, env, f"{shared}/")]
        return [*obeyed, *(f"makes {path}" for path in _MADE if path.startswith(f"{shared}/"))]

    return found


def _obeyed(argv: Sequence[str], env: Mapping[str, str], shared: str) -> Iterator[str]:
    if argv[0].startswith(shared):
        yield f"executes {argv[0]}"
    for option, value in itertools.pairwise(argv):
        if option in _OBEYED and value.startswith(shared):
            yield f"{argv[0]} obeys {option} {value}"
    reads_image = argv[0].endswith("podman") and not {"load", "build", "pull"}.isdisjoint(argv)
    if reads_image and f"{env.get('TMPDIR')}/" == shared:
        yield f"{argv[0]} reads an image from TMPDIR"
    named = (name for name in _OBEYED_VARIABLES if env.get(name, "").startswith(shared))
    yield from (f"{argv[0]} obeys {name}" for name in named)


_MADE: list[str] = []


def _note_made_names(event: str, arguments: tuple[Any, ...]) -> None:
    made = event in ("tempfile.mkdtemp", "tempfile.mkstemp", "os.mkdir", "os.chmod", "os.symlink")
    if made or (event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT):
        _MADE.extend(
            os.fsdecode(each) for each in arguments[:2] if isinstance(each, str | bytes | os.PathLike)
        )


sys.addaudithook(_note_made_names)

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
    """They are not in ~/.cache either, which many policies make writable."""
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


@pytest.mark.needs("bwrap")
def test_the_projects_of_work(started: Callable[[], list[str]], place: Path) -> None:
    """Scripts of these probes run on the host."""

    def resolve(project: Path, settings: Sequence[str]) -> ResolvedPolicy:
        layers = [
            layer("schema: 1\nmethod: bwrap\n", file=str(project / "sandbox.yaml")),
            run_layer(settings),
        ]
        policy = MergedPolicy.from_layers([each for each in layers if each])
        return policy.resolve(collect_facts(policy, project=project))

    outcomes = prove_work(resolve, "bwrap", probes=work_probes()[:1])
    assert [each.verdict for each in outcomes] == [Verdict.PASS]
    assert started() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's account")
def test_the_trial_of_an_account(started: Callable[[], list[str]]) -> None:
    registry.backend("user").preflight(collect_host())
    assert started() == []


@pytest.mark.needs("bwrap")
def test_a_sandbox_that_may_write_beside_them(place: Path) -> None:
    """The name is reserved whether or not it exists when the sandbox starts."""
    policy = "schema: 1\nmethod: bwrap\nextends: []\nfilesystem: {read: [/], write: [/var/tmp]}\n"
    (place / "sandbox.yaml").write_text(
        policy
    )  # the preset protects names, in other tests' projects there, too
    scratch = user_dirs.visible_scratch()
    with scratch_directory() as made:
        script = f"touch {place}/written {made}/x; mv {made} {made}-moved; mv {scratch} /var/tmp/x"
        ended = process.run(
            *(*COMMAND, "run", "--trust-policy", "--", "sh", "-c", script), cwd=place, check=False, timeout=60
        )
        assert (place / "written").exists(), ended.stderr
        assert list(made.iterdir()) == []
    assert ended.stderr.count("Read-only file system") == 2
    refused = "Device or resource busy|Permission denied"  # as root, and as another user
    assert re.search(rf"cannot move '{scratch}'.*: ({refused})", ended.stderr)


@pytest.mark.needs("unshare")
def test_a_read_only_directory(shared: Path) -> None:
    """In a container with a read-only root, for example, the directory exists from before."""
    user_dirs.visible_scratch()
    project = shared / "p"
    project.mkdir()
    (project / "sandbox.yaml").write_text("schema: 1\nmethod: bwrap\n")
    script = 'mount --bind /var/tmp /var/tmp && mount -o remount,bind,ro /var/tmp && exec "$@"'
    enter, drop = labworker.mount_namespace()
    ended = process.run(
        *(*enter, "sh", "-c", script, "sh", *drop, *SANDWRIGHT, "run", "--", "echo", "ran"),
        cwd=project,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": str(shared), "TMPDIR": str(shared)},
    )
    assert (ended.status, ended.text) == (0, "ran"), ended.stderr


def test_a_scratch_directory_of_somebody_else(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    for name, make in (("link", lambda path: path.symlink_to(place)), ("file", Path.touch)):
        path = place / name
        make(path)
        monkeypatch.setattr(user_dirs, "visible_scratch_path", lambda _, path=path: str(path))
        with pytest.raises(HostError, match="is not a directory of this user"), scratch_directory():
            pass
