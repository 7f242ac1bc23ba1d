"""Builds our small C programs for any platform, statically where the platform has static programs.

Users of sandwright do not need this module: packages contain the compiled programs (`prebuilt.py`). The
compiler is Zig's (`zig cc`, from the package `ziglang`), which brings the C libraries of all targets: musl
for Linux, Apple's stubs for macOS. Compiled programs are cached under the digest of all their inputs, so each
version is compiled once. They contain no time stamps and no paths of this machine: the same sources give the
same bytes.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from sandwright import process
from sandwright.errors import BuildError, CommandFailed, ToolMissing
from sandwright.prebuilt import PrebuiltProgram

TIMEOUT = 300.0
"""Seconds for one program; the first for a target builds its C library too."""

TARGETS: Mapping[str, str] = MappingProxyType({
    "linux/amd64": "x86_64-linux-musl",
    "linux/arm64": "aarch64-linux-musl",
    "darwin/amd64": "x86_64-macos-none",
    "darwin/arm64": "aarch64-macos-none",
})  # fmt: skip
"""By platform, as images name it: the target as Zig names it."""

FLAGS = (
    "-std=gnu11", "-Os", "-s", "-g0", "-Wall", "-Wextra", "-Werror", "-fstack-protector-strong",
    "-fno-sanitize=undefined",
)  # fmt: skip
STATIC = (
    "-static", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections",
    "-fno-asynchronous-unwind-tables", "-fno-unwind-tables",
)  # fmt: skip
"""For Linux: no byte that nothing reaches, which is a third of them."""


def build(
    sources: Sequence[Path],
    *,
    target: str,
    output: Path,
    cache: Path | None = None,
    flags: tuple[str, ...] = (),
) -> Path:
    """Compile C sources (`*.c`, and the `*.h` they include) into one program, and give its path, `output`.

    `target` is a platform (`linux/arm64`) out of TARGETS. `flags` are the compiler's, behind those that all
    programs have. `cache` is where finished programs are kept;
    absent, below SANDWRIGHT_CACHE or the user's cache directory. Raise ToolMissing without `ziglang`,
    BuildError with the compiler's words when it refuses the sources, or for a target that isn't known.
    """
    if target not in TARGETS:
        raise BuildError(f"there is no compiler for {target}; there is one for {', '.join(TARGETS)}")
    _require()
    store = cache or _cache()
    cached = store / "programs" / _build_digest(sources, target, flags)
    if not cached.exists():
        _compile(sources, target, cached, flags)
    _install_program(cached, output)
    return output


def rebuild(program: PrebuiltProgram) -> None:
    """Build a committed program for each of its platforms, and write the record of it. Raise like `build`."""
    digests = {}
    for target in program.platforms:
        made = build(program.sources(), target=target, output=program.path(target), flags=program.flags)
        digests[target] = f"sha256:{hashlib.sha256(made.read_bytes()).hexdigest()}"
    record = {"programs": digests, "sources": program.source_digest(), "zig": compiler_version()}
    program.record.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")


def _require() -> None:
    if importlib.util.find_spec("ziglang") is None:
        raise ToolMissing("ziglang", "it is a Python package: pip install ziglang")


def _build_digest(sources: Sequence[Path], target: str, flags: tuple[str, ...]) -> str:
    """Of the sources with their names, the flags, the target and the compiler's version."""
    digest = hashlib.sha256()
    parts = [b"\0".join(word.encode() for word in (compiler_version(), *_flags(target), *flags))]
    for source in sources:
        parts += [source.name.encode(), source.read_bytes()]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


@functools.cache
def compiler_version() -> str:
    """The version of the compiler, which decides about bytes too. Raise ToolMissing without `ziglang`."""
    _require()
    return process.run(sys.executable, "-m", "ziglang", "version", timeout=60).text


def _flags(target: str) -> tuple[str, ...]:
    static = STATIC if target.startswith("linux/") else ()
    return ("-target", TARGETS[target], *FLAGS, *static)


def _compile(sources: Sequence[Path], target: str, cached: Path, flags: tuple[str, ...]) -> None:
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sandwright-", dir=cached.parent) as scratch:
        made = Path(scratch) / "program"
        for source in sources:  # without the paths of this machine: diagnostics and __FILE__ hold names only
            shutil.copyfile(source, Path(scratch) / source.name)
        names = [source.name for source in sources if source.suffix == ".c"]
        argv = ("-m", "ziglang", "cc", *_flags(target), *flags, "-o", "program", *names)
        try:
            process.run(sys.executable, *argv, cwd=scratch, timeout=TIMEOUT, env=_compiler_environment())
        except CommandFailed as error:
            raise BuildError(f"cannot compile {', '.join(names)} for {target}: {error}") from error
        made.chmod(0o755)
        made.replace(cached)


def _install_program(cached: Path, output: Path) -> None:
    """Put a program in its place with a rename, so that one that is running is not written to."""
    output.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
    os.close(handle)
    try:
        shutil.copyfile(cached, name)
        Path(name).chmod(0o755)
        Path(name).replace(output)
    finally:
        Path(name).unlink(missing_ok=True)


def _compiler_environment() -> Mapping[str, str]:
    """No CPATH, C_INCLUDE_PATH or compiler flags of the host's reach the compiler."""
    zig = _cache() / "zig"
    cached = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**cached, "ZIG_GLOBAL_CACHE_DIR": str(zig), "ZIG_LOCAL_CACHE_DIR": str(zig / "local")}


def _cache() -> Path:
    configured, shared = os.environ.get("SANDWRIGHT_CACHE"), os.environ.get("XDG_CACHE_HOME", "")
    if configured:
        return Path(configured).absolute()
    return (Path(shared) if Path(shared).is_absolute() else Path.home() / ".cache") / "sandwright"
