"""Methods of others: one is installed through an entry point, named in a policy, tried, and run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandwright.errors import UsageError
from sandwright.host import collect_host
from sandwright.methods import METHODS, registry
from sandwright.methods.contract import CODES, Preflight
from sandwright.methods.shared.trial import judged
from sandwright.runtime.trial import Failed

EXAMPLE = '''
"""A method of somebody else's: bubblewrap, under another name."""
from dataclasses import replace

from sandwright.methods import bwrap
from sandwright.methods.bwrap import FORMS, PROPERTIES, expect, make_artifacts, read_artifacts

def declare():
    return replace(bwrap.declare(), method="wrapped")

def make_backend():
    return replace(bwrap.make_backend(), name="wrapped")
'''
POINTS = """[sandwright.methods]
wrapped = example_method
lacking = json
absent = example_method:nothing
bwrap = example_method
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A distribution with methods, as an installer leaves it."""
    (tmp_path / "example_method.py").write_text(EXAMPLE)
    info = tmp_path / "example_method-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example-method\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    return tmp_path


@pytest.mark.needs("bwrap")
def test_a_method_that_somebody_installed(installed: Path, tmp_path: Path) -> None:
    project = tmp_path / "home" / "p"
    (project / "secrets").mkdir(parents=True)
    (project / "secrets" / "key").write_text("content")
    rules = "filesystem: {write: [$PROJECT], deny: [$PROJECT/secrets]}\n"
    (project / "sandbox.yaml").write_text(f"schema: 1\nprefer: [seatbelt, wrapped]\n{rules}")
    (tmp_path / "run").mkdir(mode=0o700)
    program = "from sandwright.cli import main; main()"
    environ = {
        "HOME": str(tmp_path / "home"),
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": f"{installed}:{Path(registry.__file__).parents[2]}",
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
    }
    script = "echo ran; echo new >file; cat secrets/key; exit 4"
    argv = [sys.executable, "-P", "-c", program, "run", "--", "sh", "-c", script]
    ended = subprocess.run(argv, cwd=project, env=environ, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (4, b"ran\n"), ended.stderr
    assert b"method: wrapped (seatbelt: Seatbelt is macOS'; this is linux" in ended.stderr
    assert (project / "file").read_text() == "new\n"
    with (installed / "example_method.py").open("a") as newer:
        newer.write("def make_artifacts(policy):\n    raise LookupError('the newer version')\n")
    ended = subprocess.run(argv, cwd=project, env=environ, capture_output=True, timeout=60, check=False)
    assert b"the newer version" in ended.stderr, "what the older one rendered is not taken"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lacking", r"the method lacking \(json\) lacks PROPERTIES, FORMS, declare"),
        ("absent", r"the method absent \(example_method:nothing\) can't be loaded: AttributeError"),
        (
            "rocket",
            "there is no method 'rocket'; there is bwrap, docker, podman, gvisor, gvisor-docker, "
            "gvisor-podman, oci, seatbelt, kubernetes, user, alcless, landlock, vm, vm-kvm, "
            "vm-landlock, noop",
        ),
    ],
)
def test_what_is_no_method(installed: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    monkeypatch.syspath_prepend(str(installed))
    registry.forget()
    try:
        assert registry.registered() == ("wrapped", "lacking", "absent")
        ours = type(registry.backend("bwrap"))
        assert ours.__module__ == "sandwright.methods.bwrap.backend", "ours stays ours"
        with pytest.raises(UsageError, match=said):
            registry.backend(name)
    finally:
        monkeypatch.undo()
        registry.forget()


@pytest.mark.parametrize("name", ["bwrap", "oci", "gvisor", "seatbelt", "noop"])
def test_every_method_is_tried(name: str) -> None:
    host = collect_host()
    found = registry.backend(name).preflight(host)
    assert found.code in CODES
    program = {"bwrap": "bwrap", "oci": "runc", "gvisor": "runsc"}.get(name)
    if program in host.programs and host.is_root:
        assert found.ready, found
    if name == "seatbelt" and host.os == "linux":
        assert found.describe().startswith("seatbelt: Seatbelt is macOS'; this is linux; ")


@pytest.mark.needs("bwrap")
def test_a_sandbox_that_hides_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts, and its command runs: that is not enough."""
    from sandwright.methods.bwrap import backend as bwrap  # noqa: PLC0415

    monkeypatch.setattr(bwrap, "HOST_ROOT", "{read: [/], write: [$PROJECT]}")
    found = bwrap.Bwrap().preflight(collect_host())
    assert (found.code, found.ready) == ("not-denied", False)


@pytest.mark.needs("bwrap")
def test_one_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\nsleep 60\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = registry.backend("bwrap").preflight(collect_host(), limit=1.5)
    assert found.code == "hangs"
    assert "did not end within" in found.message


def test_what_a_trial_says() -> None:
    assert judged("x", None, lambda _: ("not-started", "", "")) == Preflight("x", "ready")
    assert judged("x", Failed("hangs", "s"), lambda _: ("not-started", "", "")).code == "hangs"
    helped = judged("x", Failed("not-started", "s"), lambda f: ("cgroups", f.said, "mount them"))
    assert helped.describe() == "x: s; mount them"


def test_each_method_says_what_stands_between() -> None:
    """The ladder of `docs/threats.md`: only what enforces nothing has no wall."""
    for name in METHODS:
        own = registry.properties(name)
        assert own.kernel_bug, name
        assert bool(own.walls) is (name != "noop"), name
        assert own.own_kernel is (own.kernel_bug.startswith(("of runsc", "of the kernel inside"))), name
