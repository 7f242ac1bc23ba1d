"""A rendered project for each method, with the command that starts its launcher as root or another user."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.methods.user.setup import plan_removal
from session.test_run_containers import busybox_root
from support.enginehosts import engine_host
from support.launchers import launcher_of
from support.locks import accounts_change
from support.ownedprojects import planted
from support.processtrees import naming
from support.waiting import until

NOBODY = 65534
LACKING = ("filesystem.protect", "filesystem.attributes", "process.kernel")
ACCEPTED = ", ".join(f"{{feature: {name}, method: landlock, reason: a test}}" for name in LACKING)
LANDLOCK = f"extends: []\naccept_gaps: [{ACCEPTED}]\n"


@dataclass(frozen=True)
class Place:
    """A project with its rendered artifacts."""

    launcher: Path
    root: Path
    environ: Mapping[str, str]
    before: Sequence[str] = ()
    inner: str = "bash --norc --noprofile -i"


@contextlib.contextmanager
def place(method: str, uid: int, more: str = "") -> Iterator[Place]:
    """`more` is added to the policy."""
    with contextlib.ExitStack() as stack:
        above = "/var/tmp" if method == "user" else None
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="sandwright-", dir=above))
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
        text += "environment: {set: {PATH: '/usr/local/bin:/usr/bin:/bin'}}\n" + more
        if method == "landlock":
            text += LANDLOCK
        launcher_of(text, method, home / "out", project=project.root, environ=environ, uid=uid, gid=uid)
        before: Sequence[str] = ()
        if uid:
            before = ("/usr/bin/setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--")
            for path in (home, *home.rglob("*")):
                os.chown(path, uid, uid, follow_symlinks=False)
        home.chmod(0o755)
        inner = "sh" if method in ("docker", "podman") else Place.inner
        marker = scratch.encode()
        stack.callback(until, lambda: not naming(marker), "a process is left")
        yield Place(home / "out" / "launch", project.root, environ, before, inner)


def _remove(account: object) -> None:
    with accounts_change():
        plan_removal(account).execute()  # type: ignore[arg-type]


def _image(root: Path) -> Path:
    """busybox and bash, with their libraries."""
    root.mkdir()
    busybox_root(root)
    bash = process.which("bash")
    shutil.copy(bash, root / "bin" / "bash")
    for word in process.run("ldd", bash, timeout=60).text.split():
        if word.startswith("/"):
            (root / word[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, root / word[1:])
    return root
