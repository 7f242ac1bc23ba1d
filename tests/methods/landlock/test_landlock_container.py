"""The README's first commands with landlock and vm, from a wheel, in a container of our image `debian`."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandwright import process
from sandwright.host import collect_host
from support.enginehosts import EngineHost, engine_host
from support.thorough import THOROUGH

ROOT = Path(__file__).parents[3]
BUILD = 600
"""Seconds."""

pytestmark = [
    pytest.mark.skipif(
        not THOROUGH, reason="only `invoke test --thorough` builds an image and a wheel for it"
    ),
    pytest.mark.timeout(4 * BUILD),
]

POLICY = """\
schema: 1
methods: [bwrap, landlock]
network: {mode: none}
filesystem:
  write: [$PROJECT]
  deny: [~/.ssh]
resources: {time: 10m}
environment:
  set: {CI: "true"}
accept_gaps:
  - {feature: filesystem.protect, method: landlock, reason: I look at what was changed before I use it}
  - {feature: filesystem.attributes, method: landlock, reason: names are no secret here}
  - {feature: process.kernel, method: landlock, reason: nothing else runs in this container}
"""
"""The README's policy, with a denied file of the project, and with landlock's gaps accepted."""

VM_POLICY = """\
schema: 1
method: vm
network: {mode: none}
filesystem:
  write: [$PROJECT]
  readonly: [$PROJECT/kept]
  deny: [~/.ssh, $PROJECT/.env]
resources: {memory: 256MiB, time: 10m}
environment:
  set: {CI: "true"}
"""
"""A policy that landlock could enforce half of; vm accepts no gap."""

SCRIPT = """\
cd "$HOME" && python3 -m venv --without-pip tools
tools/bin/python "$(echo /wheels/pip-*.whl)/pip" install --quiet --no-index --find-links /wheels sandwright
export PATH="$HOME/tools/bin:$PATH"
mkdir .ssh && echo key >.ssh/id && git init -q -b main project && cd project
[ $1 != vm ] || { mkdir kept; echo word >.env; echo same >kept/file; }
git -c user.name=n -c user.email=n@example.invalid commit -q --allow-empty -m first
run() { echo "== $1"; shift; status=0; "$@" 2>&1 || status=$?; echo "-- $status"; }
run init sandwright init --yes
cp /wheels/$1.yaml sandbox.yaml
run untrusted sandwright run -- true
run trust sandwright trust --yes
run write sandwright run -- sh -c 'echo hello > file; cat file'
run branch sandwright run -- git branch --show-current
run denied sandwright run -- cat "$HOME/.ssh/id"
[ $1 != vm ] || run inside \\
  sandwright run -- sh -c 'cat .env; echo x >kept/file; ln kept/file link; mv kept away'
run network sandwright run -- python3 -c 'import urllib.request as u; u.urlopen("http://1.1.1.1")'
run own sandwright run -- python3 -c '
from multiprocessing import Manager
with Manager() as manager: print(list(manager.list([7])))'
run explain sandwright explain write file
run doctor sandwright doctor
run verify sandwright verify --work
run left sh -c 'ls -A . /tmp; ps -e -o args= | grep linux.um[l]; [ ! -e kept ] || cat kept/file'
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the container: our wheel, its dependencies, pip, the script and the policy."""
    folder = tmp_path_factory.mktemp("wheels")
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    process.run(sys.executable, *build, timeout=BUILD)
    (own,) = folder.glob("sandwright-*.whl")
    process.run(
        sys.executable, "-m", "pip", "download", "--quiet", "--dest", folder, own, "pip", timeout=BUILD
    )
    (folder / "trial.sh").write_text(SCRIPT)
    (folder / "landlock.yaml").write_text(POLICY)
    (folder / "vm.yaml").write_text(VM_POLICY)
    process.run("chmod", "-R", "a+rX", folder)
    for above in folder.parents:
        if above.stat().st_uid == os.geteuid() and above.is_relative_to("/tmp"):
            above.chmod(above.stat().st_mode | 0o011)
    return folder


@dataclass(frozen=True)
class Container:
    """Our image `debian` in an engine, under a separate name."""

    engine: EngineHost
    image: str

    def run(self, *words: str | Path) -> process.Result:
        """Run a command of the engine's."""
        return process.run(
            self.engine.program, *words, env=self.engine.environment, timeout=2 * BUILD, check=False
        )


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The image, as `docker load` accepts it, and its name there."""
    folder, name = tmp_path_factory.mktemp("image"), f"sandwright-debian-{uuid.uuid4().hex[:12]}:latest"
    program, platform = Path(sys.executable).with_name("sandwright"), collect_host().platform
    process.run(
        *(program, "build-images", "debian", "--no-smoke", f"--platform={platform}", f"--output={folder}"),
        timeout=BUILD,
    )
    made = folder / "image.tar"
    process.run(
        *(program, "export-image", "debian", f"--output={folder}", f"--to={made}", f"--reference={name}"),
        timeout=BUILD,
    )
    return name, made


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.needs(name)) for name in ("docker", "podman")],
)
def container(request: pytest.FixtureRequest, archive: tuple[str, Path]) -> Iterator[Container]:
    name, file = archive
    with contextlib.ExitStack() as stack:
        made = Container(stack.enter_context(engine_host(request.param)), name)
        loaded = made.run("load", "--input", file)
        assert loaded.status == 0, loaded.stderr
        stack.callback(made.run, "rmi", "--force", name)
        yield made


Said = dict[str, tuple[int, str]]
"""The status and the output of each command of the script."""


def _first_commands(policy: str, wheels: Path, container: Container, user: str, *more: str) -> Said:
    """The container has the engine's own profile, masks and capabilities; no bubblewrap, no namespaces."""
    ended = container.run(
        *("run", "--rm", f"--user={user}", "--network=none", "--env=HOME=/home/someone"),
        *("--tmpfs=/home/someone:exec,mode=1777", f"--volume={wheels}:/wheels:ro", *more, container.image),
        *("bash", "-e", "/wheels/trial.sh", policy),
    )
    assert ended.status == 0, ended.text + ended.stderr
    found = re.findall(r"== (\w+)\n(.*?)\n?-- (\d+)\n", ended.text + "\n", re.DOTALL)
    said = {name: (int(status), text) for name, text, status in found}
    good = ("init", "trust", "write", "branch", "own", "explain", "doctor", "verify", "left")
    expected = {**dict.fromkeys(good, 0), "denied": 1, "network": 1, "untrusted": 125}
    expected |= {"untrusted": 0, "inside": 1} if policy == "vm" else {}
    assert {name: status for name, (status, _) in said.items()} == expected, ended.text
    return said


def _check_proof(said: Said, method: str) -> None:
    assert f"sandbox.yaml is proved for {method}" in said["verify"][1]
    row = next(line.split() for line in said["verify"][1].splitlines() if line.startswith(f" {method} "))
    assert (int(row[-4]) > 90, row[-3:-1]) == (True, ["0", "0"])
    undecided = [
        line for line in said["verify"][1].splitlines()
        if line.startswith(f"skipped: {method}") and "cannot" not in line and "is not there" not in line
    ]  # fmt: skip
    assert undecided == []


@pytest.mark.parametrize("user", ["0:0", "1000:1000"])
def test_the_first_commands(wheels: Path, container: Container, user: str) -> None:
    said = _first_commands("landlock", wheels, container, user)
    assert "method: landlock" in said["init"][1]
    assert said["write"][1].endswith("\nhello")
    assert "method: landlock (bwrap: bwrap is not installed)" in said["write"][1]
    assert said["branch"][1].endswith("main")
    assert said["own"][1].endswith("[7]")
    assert "Permission denied" in said["denied"][1]
    assert "[Errno 13] Permission denied" in said["network"][1]
    assert "would name landlock" in said["doctor"][1]
    _check_proof(said, "landlock")


@pytest.mark.needs("linux.uml")
@pytest.mark.parametrize("user", ["0:0", "1000:1000"])
def test_the_first_commands_with_a_kernel_of_its_own(wheels: Path, container: Container, user: str) -> None:
    """The program of the package user-mode-linux comes from this machine."""
    program = process.find("linux.uml")
    said = _first_commands("vm", wheels, container, user, f"--volume={program}:/usr/bin/linux.uml:ro")
    weaker = "vm: Landlock confines its kernel, without namespaces (vm: bwrap is not installed"
    assert weaker in said["untrusted"][1]  # the first command, which renders
    assert said["write"][1].endswith("hello")
    assert said["branch"][1].endswith("main")
    assert said["own"][1].endswith("[7]")
    assert "No such file" in said["denied"][1]
    assert "Network is unreachable" in said["network"][1]
    assert [line.rpartition(": ")[2] for line in said["inside"][1].splitlines()[-4:]] == [
        *(
            "Permission denied",
            "Read-only file system",
            "Invalid cross-device link",
            "Device or resource busy",
        ),
    ]
    assert "vm starts with vm-landlock" in said["doctor"][1]
    assert said["left"][1].split() == [
        *(".:", ".env", ".git", ".sandbox", "file", "kept", "sandbox.yaml", "/tmp:", "same"),
    ]
    _check_proof(said, "vm-landlock")
