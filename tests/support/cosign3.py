"""cosign 3 for tests: that on PATH, else, in a thorough run, built by Go, and kept in the cache."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from sandwright import process
from sandwright.errors import HostError, SandwrightError
from sandwright.image.cache import default_cache
from support.thorough import THOROUGH

MODULE = "github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3"
"""Go compares it with the checksums of its own database."""

_BUILD = 1500.0


def program() -> Path:
    """The program. Raise HostError where it can't be had."""
    found = process.find("cosign")
    if found is not None and major(Path(found)) == 3:
        return Path(found)
    kept = default_cache(os.environ) / "tests/cosign3"
    if (kept / "cosign").exists():
        return kept / "cosign"
    if not THOROUGH or process.find("go") is None:
        raise HostError("cosign 3 is not installed; a thorough run builds it where there is Go")
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "lock").open("w") as lock, tempfile.TemporaryDirectory(dir=kept) as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (kept / "cosign").exists():
            _build(Path(scratch), kept / "cosign")
    return kept / "cosign"


def major(cosign: Path) -> int:
    """The first number of a program's version; 0 where it names none, as one that is built by hand."""
    told = process.run(cosign, "version", timeout=30, check=False).text
    version = next((line.split()[-1] for line in told.splitlines() if line.startswith("GitVersion")), "")
    first = version.removeprefix("v").partition(".")[0]
    return int(first) if first.isdecimal() else 0


def _build(scratch: Path, target: Path) -> None:
    own = {"GOBIN": str(scratch), "GOPATH": f"{scratch}/path", "GOCACHE": f"{scratch}/cache"}
    flags = {"GOFLAGS": "-modcacherw"}
    try:
        process.run("go", "install", MODULE, env={**os.environ, **own, **flags}, timeout=_BUILD)
    except SandwrightError as error:
        raise HostError(f"cosign 3 can't be built: {str(error).splitlines()[0]}") from error
    (scratch / "cosign").replace(target)
