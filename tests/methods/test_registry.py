"""Third-party methods: one is installed through an entry point, named in a policy, tried, and run.

Tests of methods/__init__.py.
Tests of methods/contract.py.
Tests of methods/registry.py.
Tests of methods/shared/trial.py: a trial sandbox.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from sandwright.errors import UsageError
from sandwright.host import collect_host
from sandwright.methods import METHODS, package_of, registry
from sandwright.methods.contract import CODES, Parts, Preflight
from sandwright.methods.properties import Answers
from sandwright.methods.shared.trial import judged
from sandwright.policy.declaration import Declaration
from sandwright.runtime.trial import Failed

EXAMPLE = '''
"""A method of somebody else's: bubblewrap, under another name."""
from dataclasses import replace

from sandwright.methods import bwrap
from sandwright.methods.contract import Method


class Wrapped(Method):
    def declare(self):
        return replace(super().declare(), method="wrapped")

    def make_backend(self):
        return replace(super().make_backend(), name="wrapped")


METHOD = Wrapped(bwrap.METHOD.properties, bwrap.METHOD.parts)
'''
POINTS = """[sandwright.methods]
wrapped = example_method:METHOD
lacking = json
absent = example_method:nothing
bwrap = example_method:METHOD
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
    (project / "sandbox.yaml").write_text(f"schema: 1\nmethods: [seatbelt, wrapped]\n{rules}")
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
        newer.write("\n\ndef newer(policy):\n    raise LookupError('the newer version')\n")
        newer.write("METHOD.make_artifacts = newer\n")
    ended = subprocess.run(argv, cwd=project, env=environ, capture_output=True, timeout=60, check=False)
    assert b"the newer version" in ended.stderr, "what the older one rendered is not taken"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lacking", r"the method lacking \(json\) is module, not sandwright.methods.contract.Method"),
        ("absent", r"cannot load the method absent \(example_method:nothing\): AttributeError"),
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
    helped = judged("x", Failed("not-started", "s"), lambda f: ("cgroups", f.output, "mount them"))
    assert helped.describe() == "x: s; mount them"


def test_each_method_says_what_stands_between() -> None:
    """The ladder of `docs/threats.md`: only a method that enforces nothing has no wall."""
    for name in METHODS:
        own = registry.properties(name)
        assert own.kernel_exploit_impact, name
        assert bool(own.isolation_layers) is (name != "noop"), name
        assert own.own_kernel is (
            own.kernel_exploit_impact.startswith(("of runsc", "of the guest kernel"))
        ), name


def test_a_package_of_a_method_that_is_not_installed(tmp_path: Path) -> None:
    """A checkout that was not installed is an example: the name is known, and the rest works."""
    site = tmp_path / "site"
    site.mkdir()
    for each in Path(yaml.__file__).parents[1].iterdir():
        if not each.name.startswith("sandwright"):
            (site / each.name).symlink_to(each)
    code = (
        "import sys; sys.path += sys.argv[1:]; "
        "from sandwright.methods import METHODS, registry; print(*METHODS); print(*registry.names()); "
        "print(registry.find('bwrap')[0]); registry.method('kubernetes')"
    )
    builder = Path(registry.__file__).parents[2]
    argv = (sys.executable, "-I", "-S", "-c", code, str(builder), str(site))
    ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    shown, run_here, found = ended.stdout.splitlines()
    assert "kubernetes" not in f"{shown} {run_here}".split()
    assert {"bwrap", "noop"} <= set(shown.split())
    assert found == "bwrap"
    assert ended.stderr.splitlines()[-1].endswith(
        "UsageError: the method kubernetes needs the package sandwright_kubernetes: install sandwright again"
    )


def test_another_package_does_not_take_the_name_of_a_method_of_ours(tmp_path: Path) -> None:
    info = tmp_path / "aaa-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[sandwright.methods]\nkubernetes = example_method:METHOD\n")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from sandwright.methods import METHODS, registry; "
        "print('kubernetes' in METHODS, registry.registered(), 'example_method' in sys.modules)"
    )
    argv = (sys.executable, "-P", "-c", code, str(tmp_path))
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.split() == ["True", "()", "False"]


PARTS = [
    pytest.param(own, parts, id=f"{name}")
    for own, method in METHODS.items()
    for name, parts in [(own, method.parts), *((each, v.parts) for each, v in method.variants.items())]
]


@pytest.mark.parametrize(("own", "parts"), PARTS)
def test_every_part_is_there_and_of_this_method(own: str, parts: Parts) -> None:
    """Each part is named as text, which no type checker checks."""
    named = {part: text for part, text in asdict(parts).items() if text}
    assert named, "a method or variant without parts is a mistake"
    for part, text in named.items():
        module = text.partition(":")[0]
        shared = part in ("read_back", "read_others") and module.startswith("sandwright.methods.shared.")
        assert shared or module.startswith((f"sandwright.methods.{own}.", f"{package_of(own)}.")), text
        loaded = parts.load(part)
        match part:
            case "declaration":
                assert isinstance(loaded, Declaration)
            case "expected":
                assert all(isinstance(each, Answers) for each in loaded.values())
            case "render":
                assert next(iter(inspect.signature(loaded).parameters)) == "policy"
            case "read_back" | "read_others":
                assert len(inspect.signature(loaded).parameters) == 2
            case "backend":
                assert loaded().name


def test_all_artifacts_are_read_back() -> None:
    """Without a reader, the artifacts would not be checked before their use."""
    rendering = [
        (name, parts)
        for own, method in METHODS.items()
        for name, parts in [(own, method.parts), *((each, v.parts) for each, v in method.variants.items())]
        if parts.render
    ]
    assert len(rendering) == 16
    assert [name for name, parts in rendering if not parts.read_back] == []
