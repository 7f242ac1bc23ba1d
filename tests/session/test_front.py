"""The native command uses an entry of the render cache only while all of its inputs are unchanged.

A wrapper in place of the interpreter records when Python is started: at the start of a run, or for its
report.

Tests of digests.py: C and Python compute the same digests.
Tests of front/source/questions.c: a stale entry is not used.
Tests of front/source/scan.c: when a run leaves something to report.
Tests of front/source/start.c: the starts that need Python, and the others.
Tests of session/cache_key.py: an entry without a valid HMAC is not used.
"""

# mypy: disable-error-code="func-returns-value,no-untyped-call"
from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sandwright.documents.record import encode_record
from session.conftest import POLICY, WAIT, Project
from session.entries import entries, entry, touching, with_answer, write
from support import fronts, standby
from support.sessionrecords import session_record
from support.thorough import representative
from support.waiting import until

pytestmark = pytest.mark.needs("bwrap", "git")

WRAPPER = """#!/bin/sh
case $1 in
    -I) echo report >>{log}; exec {python} "$@" ;;
    *) echo start >>{log}; test ! -e {log}.only || exit 99; exec {starts} "$@" ;;
esac
"""


@dataclass
class Front:
    """The project, with a command that notes each start of Python."""

    project: Project
    log: Path
    wrapper: Path

    def python(
        self, *words: str, options: tuple[str, ...] = ()
    ) -> tuple[list[str], subprocess.CompletedProcess[bytes]]:
        """Run a command; return the reasons for which Python was started, and the run."""
        self.log.write_text("")
        ended = self.project.run(*words, options=options)
        return self.log.read_text().split(), ended

    def begins(self, *words: str, options: tuple[str, ...] = ()) -> list[str]:
        """The reason for which Python starts, if it exits there: test_render_cache.py has the rest."""
        only = self.log.with_name(f"{self.log.name}.only")
        only.touch()
        try:
            return self.python(*words, options=options)[0]
        finally:
            only.unlink()

    def warm(self, *words: str) -> None:
        """Run until no run needs Python: other processes of this machine open sockets, and make accounts."""
        said = []
        for _ in range(8):
            started, ended = self.python(*(words or ("true",)))
            assert ended.returncode == 0, ended
            said.append(started)
            if not started and said[:-1]:
                break
            time.sleep(0.05)
        assert not said[-1], said
        path, data = entry(self.project)
        write(self.project, path, replace(data, report=(str(self.wrapper), *data.report[1:])))


@pytest.fixture
def front(project: Project, tmp_path: Path, request: pytest.FixtureRequest) -> Front:
    log, wrapper = tmp_path / "log", tmp_path / "wrapped"
    real = request.node.get_closest_marker("real_start")
    starts = sys.executable if real else standby.interpreter(tmp_path / "interpreter")
    wrapper.write_text(WRAPPER.format(log=log, python=sys.executable, starts=starts))
    wrapper.chmod(0o755)
    command = fronts.installed(tmp_path / "command", str(wrapper))
    shutil.rmtree(project.root / ".git")
    subprocess.run(["git", "init", "-q", project.root], check=True)
    return Front(replace(project, command=(str(command),), forked=()), log, wrapper)


def _write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _same_size_and_time(path: Path, text: str) -> None:
    before = path.stat()
    assert len(text) == before.st_size
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _directory_for_link(path: Path) -> None:
    """Move the file at a path away, and put a link to it there."""
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def _program(front: Front) -> Path:
    """A bwrap of this user, first on PATH."""
    folder = front.project.home / "programs"
    folder.mkdir(exist_ok=True)
    shutil.copy(str(shutil.which("bwrap")), folder / "bwrap.new")
    (folder / "bwrap.new").rename(folder / "bwrap")
    front.project.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
    return folder / "bwrap"


def _rendered(front: Front, name: str) -> Path:
    (found,) = (front.project.home / ".cache/sandwright/sessions/rendered").glob(f"*/{name}")
    return found


def _replaced(path: Path, content: bytes) -> None:
    new = path.with_name("new")
    new.write_bytes(content)
    new.chmod(path.stat().st_mode)
    new.rename(path)


def _in_place(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


def _root(front: Front) -> Path:
    return front.project.root


def _home(front: Front) -> Path:
    return front.project.home


def _set(name: str, value: str) -> Callable[[Front], object]:
    return lambda front: front.project.environment.__setitem__(name, value)


def _layer(front: Front, value: str) -> None:
    _write(_home(front) / ".config/sandwright/policy.yaml", f"environment: {{set: {{A: {value}}}}}\n")


def _git(*words: str | Path) -> None:
    subprocess.run(["git", *words], check=True)


def _fresh(name: str, variable: str) -> Callable[[Front], object]:
    """Let a variable name another, empty directory."""

    def change(front: Front) -> None:
        made = _home(front) / name
        made.mkdir(mode=0o700)
        front.project.environment[variable] = str(made)

    return change


PREPARED: dict[str, Callable[[Front], object]] = {
    "a program of the user": _program,
    "the program, replaced by a copy": _program,
    "the program, with the same size and time": _program,
    "a program's rights": _program,
    "a link's target": lambda f: (
        _write(_home(f) / "one/x"),
        (_home(f) / "linked").symlink_to("one"),
        f.project.policy.write_text(POLICY.replace("secrets]", "secrets, ~/linked]")),
    ),
    "a user's layer": lambda f: _layer(f, "b"),
    "a user's layer goes": lambda f: _layer(f, "b"),
    "a file of a repository inside": lambda f: _git("init", "-q", _root(f) / "a/b"),
    "a repository inside goes": lambda f: _git("init", "-q", _root(f) / "a/b"),
}
"""The files beside the project that exist before the first run."""

STALE: dict[str, Callable[[Front], object]] = {
    "the policy": lambda f: f.project.policy.write_text(POLICY + "network: {mode: host}\n"),
    "the policy, with the same size": lambda f: f.project.policy.write_text(
        POLICY.replace("secrets", "hidden!")
    ),
    "the policy, with the same size and time": lambda f: _same_size_and_time(
        f.project.policy, POLICY.replace("secrets", "hidden!")
    ),
    "the policy, with an old time": lambda f: (
        f.project.policy.write_text(POLICY + "network: {mode: host}\n"),
        os.utime(f.project.policy, (1, 1)),
    ),
    "the policy, by rename": lambda f: _replaced(
        f.project.policy, f"{POLICY}network: {{mode: host}}\n".encode()
    ),
    "the policy is a link": lambda f: _directory_for_link(f.project.policy),
    "the policy goes": lambda f: f.project.policy.unlink(),
    "a user's layer appears": lambda f: _layer(f, "b"),
    "a user's layer": lambda f: _layer(f, "c"),
    "a user's layer goes": lambda f: (_home(f) / ".config/sandwright/policy.yaml").unlink(),
    "a protected file appears": lambda f: _write(_root(f) / ".envrc"),
    "a protected link appears": lambda f: (_root(f) / ".envrc").symlink_to("/nowhere"),
    "a protected directory appears": lambda f: (_root(f) / ".vscode").mkdir(),
    "a denied path goes": lambda f: shutil.rmtree(_root(f) / "secrets"),
    "a denied directory becomes a file": lambda f: (
        shutil.rmtree(_root(f) / "secrets"),
        _write(_root(f) / "secrets"),
    ),
    "a denied directory becomes a link": lambda f: _directory_for_link(_root(f) / "secrets"),
    "a link's target": lambda f: (
        (_home(f) / "linked").unlink(),
        (_home(f) / "linked").symlink_to("p/secrets"),
    ),
    "a secret of the home": lambda f: _write(_home(f) / ".ssh/id"),
    "a secret of the home, as a link": lambda f: (_home(f) / ".netrc").symlink_to("/nowhere"),
    "a repository goes": lambda f: shutil.rmtree(_root(f) / ".git"),
    "Git's configuration": lambda f: _git("-C", _root(f), "config", "core.hooksPath", "scripts"),
    "Git's configuration of the user": lambda f: _write(
        _home(f) / ".gitconfig", "[commit]\n\tgpgsign = true\n"
    ),
    "a submodule's directory": lambda f: _write(_root(f) / ".git/modules/m/HEAD"),
    "a linked work tree": lambda f: _write(_root(f) / ".git/worktrees/w/HEAD"),
    "a submodule's index entry": lambda f: subprocess.run(
        ["git", "-C", _root(f), "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub"], check=True
    ),
    "a repository inside": lambda f: _git("init", "-q", _root(f) / "x/y"),
    "a repository inside goes": lambda f: shutil.rmtree(_root(f) / "a/b/.git"),
    "a file of a repository inside": lambda f: _write(_root(f) / "a/b/.envrc"),
    "a second name of Git's configuration": lambda f: os.link(_root(f) / ".git/config", _root(f) / "config"),
    "a program of the user": lambda f: _write(_home(f) / "programs/bwrap", '#!/bin/sh\nexec bwrap-2 "$@"\n'),
    "a program appears": _program,
    "the program, replaced by a copy": _program,
    "the program, with the same size and time": lambda f: _in_place_with_time(_home(f) / "programs/bwrap"),
    "a program's rights": lambda f: (_home(f) / "programs/bwrap").chmod(0o700),
    "a variable of the policy's choice": _set("SANDBOX_METHOD", "landlock"),
    "a variable that is added": _set("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere"),
    "a variable that is empty": _set("DOCKER_HOST", ""),
    "a variable that names libraries": _set("LD_LIBRARY_PATH", "/nowhere"),
    "another home": _fresh("second", "HOME"),
    "another configuration": _fresh("c", "XDG_CONFIG_HOME"),
    "another runtime directory": _fresh("r", "XDG_RUNTIME_DIR"),
    "another cache": _fresh("ca", "XDG_CACHE_HOME"),
    "the launcher": lambda f: _replaced(_rendered(f, "launch"), b"#!/bin/sh\ntouch pwned\n"),
    "the launcher, in place": lambda f: _rendered(f, "launch").write_bytes(b"#!/bin/sh\ntouch pwned\n"),
    "the launcher's plan": lambda f: _in_place(_rendered(f, "launch.plan"), b"method", b"methxd"),
    "the arguments": lambda f: _in_place(_rendered(f, "args"), b"--cap-drop", b"--cap-drip"),
    "the filter": lambda f: _rendered(f, "seccomp.bpf").write_bytes(b""),
    "an artifact goes": lambda f: _rendered(f, "args").unlink(),
    "an artifact is a link": lambda f: _directory_for_link(_rendered(f, "args")),
    "artifacts of the project": lambda f: _write(_root(f) / ".sandbox/bwrap/manifest.json", "{}"),
}


def _in_place_with_time(path: Path) -> None:
    """Change a byte at a program's end, which is never read, and keep its time."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _removed(*names: str) -> Callable[[Front], object]:
    """Remove files and directories of the home."""

    def undo(front: Front) -> None:
        for name in names:
            path = _home(front) / name
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    return undo


UNDONE: dict[str, Callable[[Front], object]] = {
    "a user's layer appears": _removed(".config"),
    "a protected file appears": _removed("p/.envrc"),
    "a protected link appears": _removed("p/.envrc"),
    "a protected directory appears": _removed("p/.vscode"),
    "a secret of the home": _removed(".ssh"),
    "a secret of the home, as a link": _removed(".netrc"),
    "Git's configuration of the user": _removed(".gitconfig"),
    "a submodule's directory": _removed("p/.git/modules"),
    "a linked work tree": _removed("p/.git/worktrees"),
    "a repository inside": _removed("p/x"),
    "a second name of Git's configuration": _removed("p/config"),
    "a program appears": _removed("programs"),
    "a variable of the policy's choice": _removed(),
    "a variable that is added": _removed(),
    "a variable that is empty": _removed(),
    "a variable that names libraries": _removed(),
    "another home": _removed("second"),
    "another configuration": _removed("c"),
    "another runtime directory": _removed("r"),
    "another cache": _removed("ca"),
}
"""The reversal of a change, apart from variables: then the earlier rendering is used again."""


def test_changes_are_noticed_natively_until_they_are_undone(front: Front) -> None:
    front.warm()
    environment = dict(front.project.environment)
    for change, undo in UNDONE.items():
        STALE[change](front)
        assert front.begins("true")[:1] == ["start"], change
        undo(front)
        front.project.environment.clear()
        front.project.environment.update(environment)
        assert "start" not in _least(front, "true"), f"{change}: undone"


@pytest.mark.parametrize(
    "change",
    representative(
        [each for each in STALE if each not in UNDONE],
        *("the policy, with the same size and time", "the policy is a link"),
        *("a denied directory becomes a link", "Git's configuration", "a submodule's index entry"),
        *("a program's rights", "the launcher, in place", "the filter", "artifacts of the project"),
    ),
)
def test_a_change_is_noticed_natively(front: Front, change: str) -> None:
    """Python starts and renders again, or gives the reason against it; no other program is run."""
    PREPARED.get(change, lambda _: None)(front)
    front.warm()
    STALE[change](front)
    started = front.python("true")[0] if change.startswith("the launcher") else front.begins("true")
    assert started[:1] == ["start"]
    assert not (_root(front) / "pwned").exists()


HARMLESS: dict[str, Callable[[Front], object]] = {
    "a new file": lambda f: _write(_root(f) / "src/new"),
    "a commit": lambda f: _git(
        *("-C", _root(f), "-c", "user.name=n", "-c", "user.email=e@example.org"),
        *("commit", "-q", "--allow-empty", "-mx"),
    ),
    "an index that is written": lambda f: (
        _write(_root(f) / "tracked"),
        _git("-C", _root(f), "add", "tracked"),
    ),
    "a variable that decides nothing": _set("SOMETHING", "else"),
    "a file of the home": lambda f: _write(_home(f) / ".lesshst.new"),
    "a directory in the home": lambda f: (_home(f) / "more").mkdir(),
    "another session's placeholder": lambda f: (
        (_root(f) / ".envrc").mkdir(),
        (_root(f) / ".envrc").chmod(0o1555),
    ),
    "another session's placeholder for a file": lambda f: (
        _write(_root(f) / ".git/commondir", ".\n"),
        (_root(f) / ".git/commondir").chmod(0o444),
    ),
}


def test_what_decides_nothing_needs_no_python(front: Front) -> None:
    front.warm()
    for change, made in HARMLESS.items():
        made(front)
        assert "start" not in _least(front, "true"), change


def _least(front: Front, *words: str) -> list[str]:
    """The fewest questions for which Python was started in several runs: other processes open sockets."""
    found: list[list[str]] = []
    while len(found) < 4 and [] not in found:
        found.append(front.python(*words)[0])
    return min(found, key=len)


@pytest.mark.needs("unshare")
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_mount_at_its_own_place(front: Front) -> None:
    """Engines mount their storage on itself, and unmount it. Such a mount shows nothing at another path."""
    (_root(front) / "secrets/below").mkdir()
    front.warm()
    for other, started in (("secrets/below", []), ("elsewhere", ["start"])):
        (_root(front) / other).mkdir(exist_ok=True)
        mounting = f'mount --bind secrets/below {other} && exec "$@"'
        words = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            mounting,
            "sh",
            *front.project.command,
            "run",
            "--",
            "true",
        ]
        front.log.write_text("")
        subprocess.run(words, cwd=_root(front), env=front.project.environ, timeout=WAIT, check=True)
        assert front.log.read_text().split() == started


def test_a_socket_that_is_shown(front: Front) -> None:
    front.warm()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(_root(front) / "s"))
        listening.listen()
        assert front.begins("true")[:1] == ["start"]


@pytest.mark.skipif(os.getuid() != 0, reason="mounts")
def test_a_mount_over_a_path_that_was_looked_at(front: Front) -> None:
    (_root(front) / "secrets").mkdir(exist_ok=True)
    front.warm()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", _home(front)], check=True)
    try:
        assert not entries(front.project), "the cache is hidden, too"
    finally:
        subprocess.run(["umount", _home(front)], check=True)
    subprocess.run(["mount", "--bind", "/dev/null", _root(front) / "sandbox.yaml"], check=True)
    try:
        assert front.python("true")[0][:1] == ["start"]
    finally:
        subprocess.run(["umount", _root(front) / "sandbox.yaml"], check=True)


@pytest.mark.real_start
@pytest.mark.skipif(os.getuid() != 0, reason="becomes another group")
def test_another_group(front: Front) -> None:
    front.warm()
    front.log.write_text("")
    words = ["setpriv", "--groups", "0,12345", *front.project.command, "run", "--", "true"]
    subprocess.run(words, cwd=_root(front), env=front.project.environ, timeout=WAIT, check=True)
    assert front.log.read_text().split()[:1] == ["start"]


ATTACKS: dict[str, Callable[[Path, bytes, bytes], bytes]] = {
    "other content": lambda _, mac, body: mac + b"\n" + body.replace(b"/launch\0", b"/lxunch\0", 1),
    "a byte behind it": lambda _, mac, body: mac + b"\n" + body + b"\0",
    "truncated": lambda _, mac, body: mac + b"\n" + body[: len(body) // 2],
    "without its first line": lambda _path, _mac, body: body,
    "an empty first line": lambda _path, _mac, body: b"\n" + body,
    "another first line": lambda _path, _mac, body: b"0" * 64 + b"\n" + body,
    "a cut first line": lambda _, mac, body: mac[:-1] + b"\n" + body,
    "empty": lambda _path, _mac, _body: b"",
    "zeros": lambda _path, mac, body: bytes(len(mac) + len(body)),
}


def test_an_entry_that_somebody_wrote_is_not_used(front: Front) -> None:
    front.warm()
    for attack, wrote in ATTACKS.items():
        path, _ = entry(front.project)
        whole = path.read_bytes()
        mac, _, body = whole.partition(b"\n")
        path.write_bytes(wrote(path, mac, body))
        assert front.begins("true")[:1] == ["start"], attack
        path.write_bytes(whole)
        assert "start" not in _least(front, "true"), "the control"


def _evil(front: Front) -> Path:
    """An entry that starts another program, with this user's key."""
    path, data = entry(front.project)
    write(front.project, path, touching(front.project, data, _root(front) / "pwned"))
    return path


def test_the_control_of_these_attacks(front: Front) -> None:
    front.warm()
    _evil(front)
    assert front.python("true")[0] == []
    assert (_root(front) / "pwned").exists()


OPENED: dict[str, Callable[[Front, Path], object]] = {
    "an entry that others can write": lambda _, path: path.chmod(0o666),
    "an entry that others can read": lambda _, path: path.chmod(0o644),
    "an entry that is a link": lambda _, path: _directory_for_link(path),
    "an entry that is a pipe": lambda _, path: (path.unlink(), os.mkfifo(path, 0o600)),
    "a key that others can read": lambda f, _: _key(f).chmod(0o644),
    "a key that is a link": lambda f, _: _directory_for_link(_key(f)),
    "a key that is too short": lambda f, _: _key(f).write_bytes(b"k" * 31),
    "another key": lambda f, _: _key(f).write_bytes(b"k" * 32),
    "no key": lambda f, _: _key(f).unlink(),
}


def _key(front: Front) -> Path:
    return _home(front) / ".local/state/sandwright/keys/render-cache"


def test_what_others_could_have_written_is_not_used(front: Front) -> None:
    """The native command rejects it; test_what_cannot_be_used_is_made_anew continues from there."""
    for way, opened in OPENED.items():
        front.warm()
        files = {path: path.read_bytes() for path in (entry(front.project)[0], _key(front))}
        opened(front, _evil(front))
        assert front.begins("true")[:1] == ["start"], way
        assert not (_root(front) / "pwned").exists(), way
        for path, content in files.items():
            path.unlink(missing_ok=True)
            path.write_bytes(content)
            path.chmod(0o600)


@pytest.mark.parametrize("way", representative(OPENED, "an entry that is a pipe", "a key that is a link"))
def test_what_cannot_be_used_is_made_anew(front: Front, way: str) -> None:
    front.warm()
    OPENED[way](front, _evil(front))
    assert front.python("true")[0][:1] == ["start"]
    assert not (_root(front) / "pwned").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="gives files away")
@pytest.mark.parametrize("what", ["entry", "key"])
def test_a_cache_of_another_user_is_not_used(front: Front, what: str) -> None:
    front.warm()
    path = _evil(front)
    os.chown(path if what == "entry" else _key(front), 65534, 65534)
    assert front.begins("true")[:1] == ["start"]


def test_an_entry_of_another_directory_is_not_used(front: Front) -> None:
    """The entry is authentic, but for another name."""
    front.warm()
    path = _evil(front)
    other = _root(front) / "src"
    other.mkdir()
    front.project.sandwright("run", "--", "true", cwd=other)
    (theirs,) = (each for each in entries(front.project) if each != path)
    theirs.write_bytes(path.read_bytes())
    front.log.write_text("")
    front.project.sandwright("run", "--", "true", cwd=other)
    assert front.log.read_text().split()[:1] == ["start"]


def test_another_answer_of_each_kind(front: Front) -> None:
    front.warm()
    for kind in ("entries", "content", "variable", "nested", "index", "status", "stamp", "tree"):
        path, data = entry(front.project)
        write(front.project, path, with_answer(data, kind, ("another",)))
        assert front.begins("true")[:1] == ["start"], kind
        write(front.project, path, data)
        assert "start" not in _least(front, "true"), "the control"


OPTIONS = (
    *(
        "--quiet",
        "--help",
        "--policy=sandbox.yaml",
        "--set=network.mode=none",
        "--time=5",
        "--explain-denials",
    ),
    "--nonsense",
)


def test_options_are_pythons(front: Front) -> None:
    front.warm()
    for option in OPTIONS:
        assert front.begins("true", options=(option,))[:1] == ["start"], option
    assert "start" not in _least(front, "true"), "the control"


PYTHONS: dict[str, tuple[str, ...]] = {
    "Git, whose commands may need a hint": ("git", "status"),
    "an agent, for which there is a preset": ("claude",),
    "a program in /tmp": ("/tmp/program",),
    "a name that JSON would escape": ('a"b',),
    "a name that is no ASCII": ("ä",),
}


def test_some_commands_are_pythons(front: Front) -> None:
    front.warm()
    for why, words in PYTHONS.items():
        assert front.begins(*words)[:1] == ["start"], why
    assert "start" not in _least(front, "true"), "the control"


@pytest.mark.real_start
def test_some_variables_are_pythons(front: Front) -> None:
    front.warm()
    for variable in ("OTEL_SERVICE_NAME", "SANDWRIGHT_TELEMETRY", "PYTHONHOME"):
        value = f"{_home(front)}/x" if variable != "PYTHONHOME" else sys.base_prefix
        front.project.environment[variable] = value
        assert front.begins("true")[:1] == ["start"], variable
        del front.project.environment[variable]
    assert "start" not in _least(front, "true"), "the control"


def test_a_policy_that_needs_trust(front: Front) -> None:
    """A single run with trust gives no later one trust."""
    front.project.environment["SANDWRIGHT_TRUST"] = ""
    front.project.policy.write_text(f"{POLICY}network: {{mode: host}}\n")
    trusted = front.project.sandwright("run", "--trust-policy", "--", "true")
    assert trusted.returncode == 0, trusted
    started, ended = front.python("true")
    assert (started[:1], ended.returncode) == (["start"], 125)
    assert front.project.sandwright("trust", "--yes").returncode == 0
    front.warm()
    assert front.python("true")[1].stderr == b""
    assert front.project.sandwright("trust", "--forget").returncode == 0
    started, ended = front.python("true")
    assert (started[:1], ended.returncode) == (["start"], 125)


REPORTED: dict[str, str] = {
    "a repository": "git init -q x",
    "a repository without its name": "mkdir x && touch x/HEAD && mkdir x/objects x/refs",
    "a file that leads to one": "echo gitdir: /x >.git2 && mkdir y && mv .git2 y/.git",
    "a setting of an editor, deep": "mkdir -p a/b/.vscode && echo {} >a/b/.vscode/settings.json",
    "a name in another case": "mkdir -p a/b/.VSCode && echo {} >a/b/.VSCode/tasks.json",
    "a name with an ignored character": "mkdir -p a/b && touch $(printf 'a/b/.env\\342\\200\\213rc')",
    "a link that Git writes through": "mkdir -p y/.git && ln -s ../x y/.git/COMMIT_EDITMSG",
    "a denial": "unshare -r true 2>/dev/null; true",
}


@pytest.mark.parametrize(
    "script",
    representative(
        [pytest.param(script, id=name) for name, script in REPORTED.items()],
        *("a repository", "a file that leads to one", "a setting of an editor, deep"),
        *("a name with an ignored character", "a denial"),
    ),
)
def test_python_reports_what_a_run_left(front: Front, script: str) -> None:
    front.warm()
    assert "report" in front.python("sh", "-c", script)[0]


QUIET: dict[str, str] = {
    "a file": "echo x >x",
    "a tree": "mkdir -p a/b/c && touch a/b/c/d",
    "a file that goes": "touch x && rm x",
    "a failure": "exit 3",
}


def test_nothing_to_report_needs_no_python(front: Front) -> None:
    front.warm()
    for what, script in QUIET.items():
        assert _least(front, "sh", "-c", script) == [], what
        assert front.project.records() == []
        assert front.python("sh", "-c", script)[1].returncode == (3 if script == "exit 3" else 0)


def _known(front: Front) -> Path:
    return next((_home(front) / ".cache/sandwright/sessions/repositories").iterdir())


@pytest.mark.parametrize("damage", ["old", "of the future", "absent"])
def test_each_file_is_looked_at_once_a_day(front: Front, damage: str) -> None:
    front.warm()
    known, planted = _known(front), front.project.root / "below/planted"
    _write(planted)
    planted.chmod(0o4755)
    time.sleep(0.05)  # a tick of the file system's clock
    assert front.python("true")[0] == []
    text = '{"full": "1"}' if damage == "old" else known.read_text().replace('"full": "', '"full": "1')
    known.unlink() if damage == "absent" else known.write_text(text)
    assert front.python("true")[0] == ["report"]
    assert json.loads(known.read_text())[str(planted)] == "set-id"
    planted.unlink()
    assert front.python("true")[0] == ["report"]
    assert list(json.loads(known.read_text())) == ["full"]


def test_a_complete_look_is_remembered(front: Front) -> None:
    front.warm()
    known = _known(front)
    known.write_text('{"full": "1"}')
    assert front.python("true")[0] == []
    assert abs(int(json.loads(known.read_text())["full"]) - time.time()) < 60


def _has_python_looked(front: Front, *words: str) -> bool:
    """Whether Python reports a first run: it forgets known repositories that are gone."""
    assert front.project.run("true").returncode == 0
    for path in entries(front.project):
        path.unlink()
    known = _known(front)
    known.write_text(json.dumps({**json.loads(known.read_text()), "1:1": "/gone"}))
    started, ended = front.python(*words)
    assert (started, ended.returncode) == (["start"], 0), ended
    assert front.project.records() == []
    return "1:1" not in json.loads(known.read_text())


def test_nothing_to_report_of_a_first_run(front: Front) -> None:
    """Python has become the launcher, and the native command scans as after any other run."""
    assert not _has_python_looked(front, "true")


def test_what_a_first_run_left(front: Front) -> None:
    assert _has_python_looked(front, "mkdir", "-p", "a/b/.vscode")


def test_telemetry_of_a_first_run_is_pythons(front: Front, tmp_path: Path) -> None:
    front.project.environment["SANDWRIGHT_TELEMETRY"] = str(tmp_path / "events")
    assert _has_python_looked(front, "true")
    first, second = map(json.loads, (tmp_path / "events").read_text().splitlines())
    assert (first["rendered"], second["rendered"]) == ("now", "now")


def test_what_a_session_is_known_by(front: Front) -> None:
    """The front's record has the same content as Python's."""
    running = front.project.start("sleep", "30", options=("--quiet",))
    try:
        python = _record(front)
    finally:
        running.terminate()
        running.communicate()
    front.warm()
    front.log.write_text("")
    running = front.project.start("sleep", "30")
    try:
        native = _record(front)
        status = json.loads(front.project.sandwright("status", "--json").stdout)["sessions"]
    finally:
        running.terminate()
        running.communicate()
    assert python.pop("name") == ""  # only a detached run has one, and Python starts it
    assert python.keys() == native.keys()
    changing = {"session", "pid", "start", "began", "clock", "after"}
    assert {name for name in native if native[name] != python[name]} <= changing
    assert native["after"].keys() == python["after"].keys()
    assert [each["pid"] for each in status] == [running.pid]


def _record(front: Front) -> dict[str, Any]:
    until(lambda: bool([each for each in front.project.records() if each.suffix == ".json"]), "no record")
    (path,) = (each for each in front.project.records() if each.suffix == ".json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_session_that_was_killed_is_swept(front: Front) -> None:
    front.warm()
    record = front.project.runtime / "sandwright/sessions/0123456789abcdef.json"
    record.write_bytes(encode_record(session_record(record.stem, start=1)))
    assert front.python("true")[0][:1] == ["start"]
    assert not record.exists()


def test_a_session_that_runs_keeps_others_native(front: Front) -> None:
    front.warm()
    running = front.project.start("sleep", "30")
    try:
        _record(front)
        assert "start" not in _least(front, "true")
    finally:
        running.terminate()
        running.communicate()


def test_without_an_interpreter_it_says_so(front: Front) -> None:
    script = Path(front.project.command[0]).with_name("sandwright-interpreter")
    script.write_text("#!/nowhere/python\n")
    ended = front.project.sandwright("--version")
    assert (ended.returncode, b"/nowhere/python" in ended.stderr) == (126, True)


@pytest.mark.real_start
def test_no_variable_leads_to_another_interpreter(front: Front, tmp_path: Path) -> None:
    for name in ("python3", "sandwright-interpreter", "python"):
        (tmp_path / name).write_text("#!/bin/sh\necho pwned\n")
        (tmp_path / name).chmod(0o755)
    front.project.environment |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(tmp_path)}
    (tmp_path / "sitecustomize.py").write_text("print('pwned')\n")
    assert b"pwned" not in front.project.sandwright("--version").stdout


def test_every_run_warns_of_a_retired_name(front: Front) -> None:
    """The warning comes from rendering, from the native command, and from Python with a cached rendering."""
    project, warning = front.project, b"`prefer` is now `methods`; the old name works for one more release\n"
    project.policy.write_text(POLICY.replace("method: bwrap\n", "prefer: [bwrap]\n"))
    _, cold = front.python("true")
    front.warm()
    started, cached = front.python("true")
    assert started == []
    assert (cold.stderr.count(warning), cached.stderr.count(warning)) == (1, 1)
    events = project.home / "events"
    for _ in range(4):  # other processes of this machine may open a socket
        ended = project.run("true", options=("--telemetry", str(events)))
        assert ended.stderr.count(warning) == 1, ended
    assert '"before"' in events.read_text()


def test_a_directory_of_sessions_that_others_could_replace_is_closed(front: Front) -> None:
    front.warm()
    above = front.project.runtime / "sandwright"
    above.chmod(0o777)
    assert front.python("true")[0][:1] == ["start"]
    assert above.stat().st_mode & 0o777 == 0o700


def test_a_first_program_inside_that_was_changed_is_not_started(front: Front) -> None:
    """The launcher refuses it, and a run renders it again."""
    front.warm()
    first = _rendered(front, "launch-init")
    _in_place(first, b"this part of", b"that part of")
    ended = subprocess.run(
        [first.with_name("launch"), "true"],
        env=front.project.environ, cwd=front.project.root, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 125
    assert b"launch-init was changed after it was rendered: render it again" in ended.stderr
    assert front.project.run("true").returncode == 0
