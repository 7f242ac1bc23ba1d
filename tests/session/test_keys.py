"""Keys and jobs of a real shell, for each method, as root and as another user."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from enginehosts import engine_host
from locks import accounts_change
from ownedprojects import planted
from sandwright import process
from sandwright.api import Policy
from sandwright.methods.registry import render
from sandwright.methods.shared.artifacts import write_artifacts
from sandwright.methods.user.setup import plan_removal
from sandwright.policy.collect import collect
from session.conftest import eventually, processes_with
from session.keys import ACTIONS, FEW, Action, shell
from session.test_run_containers import busybox_root
from thorough import THOROUGH

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="becomes other users"),
    pytest.mark.needs("bash", "busybox", "setpriv"),
]
METHODS = {
    "bwrap": pytest.mark.needs("bwrap"),
    "oci": pytest.mark.needs("runc"),
    "gvisor": pytest.mark.needs("runsc"),
    "docker": pytest.mark.needs("docker"),
    "podman": pytest.mark.needs("podman", "runc"),
    "user": [pytest.mark.needs("useradd"), pytest.mark.exclusive("accounts")],
}
NOBODY = 65534


@dataclass(frozen=True)
class Place:
    """A project with what was rendered for it."""

    launcher: Path
    root: Path
    environ: Mapping[str, str]
    before: Sequence[str] = ()
    inner: str = "bash --norc --noprofile -i"


def _cells() -> Iterator[object]:
    """Every method as root; the first three as another user, too, as the others are one inside already."""
    for method, needs in METHODS.items():
        for uid in (0, NOBODY) if method in ("bwrap", "oci", "gvisor") else (0,):
            yield pytest.param(method, uid, marks=needs, id=f"{method}-{'user' if uid else 'root'}")


@contextlib.contextmanager
def _place(method: str, uid: int) -> Iterator[Place]:
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="sandwright-", dir="/var/tmp" if method == "user" else None))
        home = Path(scratch)
        project = planted(home)
        environ = {"PATH": os.environ["PATH"], "HOME": str(project.home), "LC_ALL": "C.UTF-8"}
        environ["XDG_RUNTIME_DIR"] = str(project.home / "run")
        if method == "user":
            project.set_up()
            stack.callback(_remove, project.account)
        image = ""
        if method in ("docker", "podman"):
            engine = stack.enter_context(engine_host(method))
            environ |= {name: value for name, value in engine.environment.items() if name != "HOME"}
            image = f"image: '{engine.image}'\n"
        elif method in ("oci", "gvisor"):
            environ["SANDWRIGHT_ROOTFS"] = str(_image(home / "image"))
            image = "image: small\n"
        text = f"schema: 1\nmethod: {method}\n{image}filesystem: {{read: [/], write: [$PROJECT]}}\n"
        text += "environment: {set: {PATH: '/usr/local/bin:/usr/bin:/bin'}}\n"
        policy = Policy.from_text(text)
        facts = replace(collect(policy, project=project.root, environ=environ), uid=uid, gid=uid)
        write_artifacts(home / "out", render(policy.resolve(facts), method).artifacts)
        before: Sequence[str] = ()
        if uid:
            before = ("/usr/bin/setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--")
            for path in (home, *home.rglob("*")):
                os.chown(path, uid, uid, follow_symlinks=False)
        home.chmod(0o755)
        inner = "sh" if method in ("docker", "podman") else Place.inner
        marker = scratch.encode()
        stack.callback(eventually, lambda: not processes_with(marker), "a process is left")
        yield Place(home / "out" / "launch", project.root, environ, before, inner)


def _remove(account: object) -> None:
    with accounts_change():
        plan_removal(account).execute()  # type: ignore[arg-type]


def _image(root: Path) -> Path:
    """busybox and bash, with what that needs."""
    root.mkdir()
    busybox_root(root)
    bash = process.which("bash")
    shutil.copy(bash, root / "bin" / "bash")
    for word in process.run("ldd", bash, timeout=60).text.split():
        if word.startswith("/"):
            (root / word[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, root / word[1:])
    return root


def _wrong(action: Action, place: Place) -> str:
    """What is wrong with an action in a shell of its own; empty if nothing is."""
    with shell([place.launcher], place.root, place.environ, place.before) as at:
        at.inner = place.inner
        before = at.line("stty -g")
        try:
            action(at)
            after = at.line("stty -g")
        except AssertionError as error:
            return str(error)
        at.line("trap - EXIT; jobs -p")
    return "" if after == before else f"the terminal is left as {after}, and was {before}"


@pytest.mark.parametrize(("method", "uid"), list(_cells()))
def test_keys_and_jobs(method: str, uid: int) -> None:
    """A row of the table that it prints: each action in a shell of its own."""
    actions = ACTIONS if THOROUGH or (method, uid) == ("bwrap", 0) else FEW
    found = {}
    with _place(method, uid) as place:
        for action in actions:
            found[action.__name__] = _wrong(action, place)
            print(f"{method:8} {uid:6} {action.__name__:20} {found[action.__name__] or 'holds'}")
        assert not any(found.values()), found
