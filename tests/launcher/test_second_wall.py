"""The second wall: a mistake in the plan of mounts opens no path that Landlock denies.

Each case changes the rendered plan, so that a file appears inside that the policy doesn't show, or a
read-only one becomes writable. With the wall the program gets EACCES. The control is the same change in a
plan without the wall, where the program reads or writes the file.

Tests of launcher/init/source/main.c: Landlock is entered before the command starts.
Tests of launcher/source/backstop.c.
Tests of launcher/source/backstop_inside.c.
Tests of render/landlock_backstop.py.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandwright.launcher.plan import parse_plan
from sandwright.methods import registry
from sandwright.methods.user.render import account_for
from sandwright.methods.user.setup import SharedTrees, plan_account, plan_removal
from sandwright.verify.prove import Weaken
from support.goldens import write_artifacts
from support.locks import accounts_change
from support.proving import resolver, unwatched
from support.weakening import configuration, replaced

pytestmark = pytest.mark.needs("bwrap", "cc")

WAIT = 120
LISTED = "extends: []\nfilesystem: {{read: [{seen}], write: [$PROJECT]}}\n"
WHOLE = "extends: []\nfilesystem: {{read: [/, {seen}], write: [$PROJECT]}}\n"
REST = "network: {mode: none}\nenvironment: {pass: [PATH], set: {PATH: /bin:/usr/bin}}\n"
HELD = "Permission denied"


@dataclass(frozen=True)
class Places:
    """The paths that a policy shows (`seen`) and hides (`secret`), beside its project."""

    base: Path

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def names(self) -> dict[str, str]:
        names = {name: str(self.base / name) for name in ("project", "seen", "secret")}
        return {**names, "beside": str(self.base)}

    def launcher(self, method: str, text: str, weaken: Weaken | None) -> Path:
        head = f"schema: 1\nmethod: {method}\n{'image: small' if method == 'oci' else ''}\n"
        policy = resolver(head + text.format(**self.names) + REST, self.project)(())
        artifacts = registry.render(policy, method).artifacts
        if weaken is not None:
            artifacts = weaken(None, artifacts)  # type: ignore[arg-type]
        out = self.base / "out"
        shutil.rmtree(out, ignore_errors=True)
        write_artifacts(out, artifacts)
        return out / "launch"


@contextlib.contextmanager
def planted() -> Iterator[Places]:
    """Files outside /tmp, because the sandbox has a separate, writable one."""
    where = "/srv" if os.access("/srv", os.W_OK) else "/var/tmp"
    with tempfile.TemporaryDirectory(prefix="sandwright-test-", dir=where) as base:
        Path(base).chmod(0o755)
        for name in ("project", "seen", "secret"):
            (Path(base) / name).mkdir()
            (Path(base) / name / "word").write_text(f"the {name}\n")
        yield Places(Path(base))


@pytest.fixture
def places() -> Iterator[Places]:
    with planted() as made:
        yield made


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root of busybox."""
    made = tmp_path_factory.mktemp("root")
    for name in ("bin", "dev", "etc", "proc", "run", "sys", "tmp", "usr", "var"):
        (made / name).mkdir()
    shutil.copy(str(shutil.which("busybox")), made / "bin/busybox")
    for name in ("cat", "dd", "ls", "sh", "mkdir", "mv", "ln", "rm"):
        (made / "bin" / name).symlink_to("busybox")
    return made


def _run(launcher: Path, script: str, **more: str) -> str:
    """The output of a shell inside, with its errors."""
    ended = subprocess.run(
        [launcher, "sh", "-c", script],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=WAIT,
        check=False, env={**os.environ, **more}, cwd=launcher.parent.parent / "project",
    )  # fmt: skip
    return ended.stdout


def arguments(old: tuple[str, ...], new: tuple[str, ...]) -> Callable[[Places], Weaken]:
    """Change the arguments of bubblewrap."""

    def change(places: Places) -> Weaken:
        before, after = (
            b"".join(word.format(**places.names).encode() + b"\0" for word in words) for words in (old, new)
        )
        return lambda _, artifacts: replaced(
            artifacts, "args", lambda content: content.replace(before, after, 1)
        )

    return change


BWRAP: dict[str, tuple[str, Callable[[Places], Weaken], str]] = {
    "what isn't listed, at another place": (
        LISTED,
        arguments(("--tmpfs", "/"), ("--tmpfs", "/", "--ro-bind", "{secret}", "/elsewhere")),
        "cat /elsewhere/word",
    ),
    "all that is beside what is listed": (
        LISTED, arguments(("--tmpfs", "/"), ("--tmpfs", "/", "--ro-bind", "{beside}", "{beside}")),
        "cat {secret}/word",
    ),
    "another directory at a listed place": (
        LISTED, arguments(("--ro-bind", "{seen}", "{seen}"), ("--ro-bind", "{secret}", "{seen}")),
        "cat {seen}/word",
    ),
    "a listed directory, writable": (
        LISTED, arguments(("--ro-bind", "{seen}", "{seen}"), ("--bind", "{seen}", "{seen}")),
        "echo changed >{seen}/word && cat {seen}/word",
    ),
    "a new file in it": (
        LISTED, arguments(("--ro-bind", "{seen}", "{seen}"), ("--bind", "{seen}", "{seen}")),
        "mkdir {seen}/new && ls {seen}",
    ),
    "the whole host, writable": (
        WHOLE, arguments(("--ro-bind", "/", "/"), ("--bind", "/", "/")),
        "echo changed >{secret}/word && cat {secret}/word",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "change", "script"), BWRAP.values(), ids=BWRAP)
def test_a_mistake_in_bubblewrap_s_arguments(
    text: str, change: Callable[[Places], Weaken], script: str, places: Places
) -> None:
    script = script.format(**places.names)
    held = _run(places.launcher("bwrap", text, unwatched(change(places), walled=True)), script)
    assert HELD in held
    control = _run(places.launcher("bwrap", text, unwatched(change(places))), script)
    assert control
    assert HELD not in control


def mounts(edit: Callable[[Places, list[dict[str, Any]]], object]) -> Callable[[Places], Weaken]:
    """Change the mounts of a runtime."""
    return lambda places: configuration(lambda _, config: edit(places, config["mounts"]))


def _more(places: Places, found: list[dict[str, Any]]) -> None:
    options = ["rbind", "rprivate", "nosuid", "nodev", "ro"]
    source = places.names["secret"]
    found.append({"destination": "/elsewhere", "type": "bind", "source": source, "options": options})


def _other(places: Places, found: list[dict[str, Any]]) -> None:
    for each in found:
        if each["destination"] == places.names["seen"]:
            each["source"] = places.names["secret"]


def _writable(places: Places, found: list[dict[str, Any]]) -> None:
    for each in found:
        if each["destination"] == places.names["seen"]:
            each["options"] = ["rbind", "rprivate", "nosuid", "nodev", "rw"]


OCI: dict[str, tuple[Callable[[Places], Weaken], str]] = {
    "what isn't listed, at another place": (mounts(_more), "cat /elsewhere/word"),
    "another directory at a listed place": (mounts(_other), "cat {seen}/word"),
    "a listed directory, writable": (mounts(_writable), "echo changed >{seen}/word && cat {seen}/word"),
    "a new file in it": (mounts(_writable), "mkdir {seen}/new && ls {seen}"),
}


@pytest.mark.needs("busybox", "runc")
@pytest.mark.parametrize(("change", "script"), OCI.values(), ids=OCI)
def test_a_mistake_in_a_runtime_s_configuration(
    change: Callable[[Places], Weaken], script: str, places: Places, root: Path
) -> None:
    given = {"SANDWRIGHT_ROOTFS": str(root)}
    script = script.format(**places.names)
    held = _run(places.launcher("oci", LISTED, unwatched(change(places), walled=True)), script, **given)
    assert HELD in held
    control = _run(places.launcher("oci", LISTED, unwatched(change(places))), script, **given)
    assert "the secret" in control or "changed" in control or "new" in control


def steps(*changes: tuple[str, str]) -> Callable[[Places], Weaken]:
    """Change the mounts that root makes for an account."""

    def change(places: Places) -> Weaken:
        def weakened(content: bytes) -> bytes:
            for words in changes:
                old, new = (each.format(**places.names).encode().replace(b" ", b"\0") for each in words)
                content = content.replace(old, new, 1)
            return content

        return lambda _, artifacts: replaced(artifacts, "plan", weakened)

    return change


_MORE = "tmpfs / 0755 directory /elsewhere ro-bind {secret} /elsewhere "
_WRITABLE = ("ro-bind {seen} {seen}", "bind {seen} {seen}")
ACCOUNT: dict[str, tuple[Callable[[Places], Weaken], str]] = {
    "what isn't listed, at another place": (steps(("tmpfs / 0755 ", _MORE)), "cat /elsewhere/word"),
    "another directory at a listed place": (
        steps(("ro-bind {seen} {seen}", "ro-bind {secret} {seen}")), "cat {seen}/word",
    ),
    "a listed directory, writable": (steps(_WRITABLE), "echo changed >{seen}/word && cat {seen}/word"),
    "a new file in it": (steps(_WRITABLE), "mkdir {seen}/new && ls {seen}"),
}  # fmt: skip


@pytest.fixture(scope="module")
def owned() -> Iterator[Places]:
    """A project with an account, one for all tests, because other workers wait while it is made."""
    with planted() as made:
        owner = account_for(str(made.project), os.geteuid())
        with accounts_change():
            plan_account(owner, SharedTrees(made.project, (), os.geteuid())).execute()
        yield made
        with accounts_change():
            plan_removal(owner).execute()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes accounts")
@pytest.mark.exclusive("accounts")
@pytest.mark.needs("useradd")
@pytest.mark.parametrize(("change", "script"), ACCOUNT.values(), ids=ACCOUNT)
def test_a_mistake_in_the_mounts_of_an_account(
    change: Callable[[Places], Weaken], script: str, owned: Places
) -> None:
    shutil.rmtree(owned.base / "seen")
    (owned.base / "seen").mkdir()
    (owned.base / "seen").chmod(0o777)
    (owned.base / "seen/word").write_text("the seen\n")
    (owned.base / "seen/word").chmod(0o666)
    script = script.format(**owned.names)
    held = _run(owned.launcher("user", LISTED, unwatched(change(owned), walled=True)), script)
    assert HELD in held
    control = _run(owned.launcher("user", LISTED, unwatched(change(owned))), script)
    assert "the secret" in control or "changed" in control or "new" in control


ALLOWED = """\
echo made >made && mkdir -p a b && mv made a/made && mv a/made b/made && ln b/made a/made && cat a/made
rm -r a b
cat {seen}/word; ls / >/dev/null && ls {seen} >/dev/null && echo listed
echo kept >/tmp/kept && cat /tmp/kept; echo 500 >/proc/self/oom_score_adj && echo told
echo shared >/dev/shm/shared && cat /dev/shm/shared; cat </dev/null; echo both >/dev/stderr
"""
WORDS = ["made", "the seen", "listed", "kept", "told", "shared", "both"]


@pytest.mark.needs("busybox", "runc")
@pytest.mark.parametrize("method", ["bwrap", "oci"])
@pytest.mark.parametrize("text", [LISTED, WHOLE], ids=["listed", "whole"])
def test_what_the_policy_allows_goes_on(method: str, text: str, places: Places, root: Path) -> None:
    launcher = places.launcher(method, text, None)
    assert parse_plan((launcher.parent / "launch.plan").read_bytes()).backstop.enabled
    script = ALLOWED.format(**places.names)
    told = _run(launcher, script, SANDWRIGHT_ROOTFS=str(root)).splitlines()
    assert sorted(told) == sorted(WORDS), "output and errors come by pipes of their own"


NOT = {
    "a filter from a file, which may let be mounted": (
        "bwrap",
        "process: {{seccomp: {project}/filter}}\n",
    ),
    "programs that gain rights in a container": ("oci", "process: {{sandbox_root: true}}\n"),
}


@pytest.mark.parametrize(("method", "more"), NOT.values(), ids=NOT)
def test_there_is_no_wall_where_it_would_forbid_what_the_policy_allows(
    method: str, more: str, places: Places
) -> None:
    (places.project / "filter").write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
    more += "accept_gaps: []\n"
    launcher = places.launcher(method, LISTED + more, None)
    assert not parse_plan((launcher.parent / "launch.plan").read_bytes()).backstop.enabled
