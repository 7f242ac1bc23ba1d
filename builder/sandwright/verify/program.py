"""Builds the probe program, for any platform, into the cache: once for each version of its source.

For this machine's own processor the system's C compiler does, in half a second, where it can link statically;
else, and for all other platforms, Zig (`crossbuild`), whose first build for a target takes its time.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from platform import machine as machine_name

from sandwright import crossbuild
from sandwright.errors import HostError
from sandwright.progress import SILENT, Progress

SOURCE = Path(__file__).parent / "probe"


def probe_program(platform: str, cache: Path, *, zig: bool = False, progress: Progress = SILENT) -> Path:
    """The path of the probe program for `platform` (`linux/amd64`), built if it isn't in `cache`.

    `zig`: never the system's compiler. Raise BuildError for a platform it can't be built for, ToolMissing
    when there is no compiler that can.
    """
    known = cache / "probe" / source_digest()[:16] / platform.replace("/", "-") / "probe"
    if known.exists():
        return known
    with progress.step(f"building the probe program for {platform}", unit="files"):
        if zig or platform != own_platform() or not crossbuild.compiled_here(_sources(), known):
            crossbuild.build(_sources(), target=platform, output=known, cache=cache)
    return known


def own_platform() -> str:
    """This machine's, as images name it.

    `linux/amd64`. Raise HostError for a processor we have no name for.
    """
    machine = _MACHINES.get(machine_name())
    if machine is None:
        raise HostError(f"there is no probe program for {machine_name()}")
    return f"{'darwin' if sys.platform == 'darwin' else 'linux'}/{machine}"


_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def source_digest() -> str:
    """The SHA-256 of the program's source, file by file in the order of their names."""
    digest = hashlib.sha256()
    for file in _sources():
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _sources() -> list[Path]:
    return sorted(file for file in SOURCE.iterdir() if file.suffix in (".c", ".h"))
