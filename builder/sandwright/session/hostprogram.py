"""Finds an agent's program on this host, to show it in a sandbox whose root is an image's.

It takes only files that a package manager keeps for this one program: the npm package that contains it, the
virtual environment of Python (pipx, uv), or the one file of a program that needs no other. It reads the
interpreter line of a script, and starts no program.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import UsageError
from sandwright.inputs import LiveHost
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.rootfs.elf import MAGIC, Malformed, read_elf

OF_IMAGES = frozenset({"libc", "libm", "libdl", "libpthread", "librt", "libstdc++", "libgcc_s", "libatomic"})
"""Libraries without their endings that an image has too: those of the C library and of the compilers."""

_SYSTEM = ("/bin", "/lib", "/lib64", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib/jvm")
"""The directories of the system's programs: an image has its own."""

_HEAD = 256
"""Bytes of a script that may name its interpreter (BINPRM_BUF_SIZE, linux/binfmts.h)."""


@dataclass(frozen=True)
class HostProgram:
    """A program: the words that start it, and the canonical paths that it needs."""

    words: tuple[str, ...]
    paths: tuple[str, ...]


def find_host_program(name: str, policy: ResolvedPolicy, inputs: LiveHost) -> HostProgram | None:
    """The program of a name on the caller's PATH; None if there is none, or it belongs to the system.

    Directories that the sandbox may write are skipped: a run could choose the program of the next one. Raise
    UsageError for a program whose directory holds a home or the project, or is hidden by the policy.
    """
    path = _on_path(name, policy, inputs)
    if not path:
        return None
    real = os.path.realpath(path)
    git = f"{policy.facts.home}/.gitconfig"
    inputs.ask("stamp", inputs.real(path))
    inputs.kind_behind(git)
    inputs.content(str(Path(real).parent.parent / "pyvenv.cfg"))
    holder = _holder(real)
    if holder is None or policy.filesystem.tree.changes_host(holder):
        return None
    words: tuple[str, ...] = (real,)
    paths = (holder, *_base_installation(holder))
    if _script_interpreter(real) == "node":
        node = os.path.realpath(_on_path("node", policy, inputs) or "/nonexistent")
        inputs.ask("stamp", node)
        words, paths = (("node", real), paths) if not _fits_images(node) else ((node, real), (*paths, node))
    _check_exposure(name, paths, policy)
    return HostProgram(words, (*paths, *_git_identity(policy)))


def _git_identity(policy: ResolvedPolicy) -> Iterator[str]:
    """The user's Git configuration, which names the committer, if the policy shows it on a host."""
    path = f"{policy.facts.home}/.gitconfig"
    rules = policy.filesystem.tree.deciding(path)
    if rules and rules[0].readable and Path(path).is_file() and os.path.realpath(path) == path:
        yield path


def _check_exposure(name: str, paths: Iterable[str], policy: ResolvedPolicy) -> None:
    """Raise UsageError if showing a program would show other files, too, or files that the policy hides."""
    for path in paths:
        for each in (policy.facts.home, policy.facts.project):
            if is_inside(os.path.realpath(each), path):
                raise UsageError(f"cannot show {name} inside: it is kept in {path}, which holds {each}")
        rules = policy.filesystem.tree.deciding(path)
        if rules and not rules[0].readable:
            raise UsageError(f"cannot show {name} inside: {path} is hidden by {rules[0]} ({rules[0].source})")


def _on_path(name: str, policy: ResolvedPolicy, inputs: LiveHost) -> str:
    """The first program of that name in absolute directories of PATH that the sandbox may not write."""
    for folder in (inputs.variable("PATH") or os.defpath).split(os.pathsep):
        path = f"{folder}/{name}"
        if folder.startswith("/") and not policy.filesystem.tree.changes_host(os.path.realpath(folder)):
            inputs.ask("stamp", path)
            if Path(path).is_file() and os.access(path, os.X_OK):
                return path
    return ""


def _holder(real: str) -> str | None:
    """The directory or file of this program alone; None for one of the system, or without a package."""
    parts = real.split("/")
    if "node_modules" in parts:
        first = parts.index("node_modules") + 1
        last = first + parts[first : first + 1][0].startswith("@")
        return "/".join(parts[: last + 1]) if last + 1 < len(parts) else None
    environment = Path(real).parents[1]
    if (environment / "pyvenv.cfg").is_file():
        return str(environment)
    if any(is_inside(real, each) for each in _SYSTEM) or not _read_head(real).startswith(MAGIC):
        return None
    return real


def _base_installation(holder: str) -> tuple[str, ...]:
    """The installation of Python that a virtual environment is based on, where it isn't the system's."""
    try:
        lines = (Path(holder) / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    folder = {key.strip(): value.strip() for key, value in settings.items()}.get("home", "")
    base = str(Path(os.path.realpath(folder)).parent) if folder.startswith("/") else "/usr"
    is_complete = any(Path(base, "lib").glob("python3*/os.py"))
    return (base,) if is_complete and base not in ("/", "/usr", "/usr/local") else ()


def _script_interpreter(real: str) -> str:
    """The name of a script's interpreter, `node`; empty for another file."""
    line = _read_head(real).split(b"\n", 1)[0]
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    names = [Path(word).name for word in words if not word.startswith("-")]
    return next((name for name in names if name != "env"), "")


def _read_head(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""


def _fits_images(program: str) -> bool:
    """Whether a program needs no library that an image may lack."""
    try:
        with Path(program).open("rb") as file:
            found = read_elf(file.fileno(), symbols=False)
    except (OSError, Malformed):
        return False
    needed = [os.fsdecode(each).split(".so", 1)[0] for each in found.needed] if found else [""]
    return all(each in OF_IMAGES or each.startswith("ld-linux") for each in needed)
