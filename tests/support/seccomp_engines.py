"""Starts containers of this machine's own programs under a seccomp profile, with every installed engine."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sandwright import process

DIRECTORIES = ("usr", "tmp", "proc", "dev", "sys", "etc", "w")
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
PYTHON = "/usr/bin/python3"
Json = dict[str, Any]


def name() -> str:
    """A name with our prefix for a container or an image."""
    return f"sandwright-seccomp-{uuid.uuid4().hex[:12]}"


def empty_root(root: Path) -> Path:
    """An empty root directory, into which this machine's /usr is mounted."""
    for directory in DIRECTORIES:
        (root / directory).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for link, target in LINKS.items():
        (root / link).symlink_to(target)
    return root


def empty_archive() -> bytes:
    """The same as an archive."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for directory in DIRECTORIES:
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if directory == "tmp" else 0o755
            archive.addfile(entry)
        for link, target in LINKS.items():
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return sink.getvalue()


@contextlib.contextmanager
def image(*engine: str) -> Iterator[str]:
    """An image of the empty root in an engine, for the length of a `with`."""
    label = name()
    process.run(*engine, "import", "-", f"{label}:latest", stdin=empty_archive(), timeout=60)
    try:
        yield f"{label}:latest"
    finally:
        process.run(*engine, "rmi", "--force", f"{label}:latest", timeout=60, check=False)


def run_in_engine(
    engine: Sequence[str], image_name: str, command: Sequence[str], *options: str, files: Path
) -> process.Result:
    """Run a command in a container of the empty root; `files` is there as /w."""
    label = name()
    mounts = ("--volume", "/usr:/usr:ro", "--volume", f"{files}:/w:ro")
    try:
        return process.run(
            *(*engine, "run", "--rm", "--name", label, "--network", "none", *mounts, *options),
            *(image_name, *command),
            timeout=120,
            check=False,
        )
    finally:
        process.run(*engine, "rm", "--force", label, timeout=60, check=False)


def runtime_config(
    command: Sequence[str], seccomp: Json | None, files: Path, *, uid: int, caps: Sequence[str]
) -> Json:
    """The configuration of a bundle: this machine's /usr, no network, no masks, no new privileges."""
    linux: Json = {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network")]}
    if seccomp is not None:
        linux["seccomp"] = seccomp
    sets = ("bounding", "effective", "permitted", "inheritable", "ambient")
    ambient_free = {kind: [] if kind in ("inheritable", "ambient") else list(caps) for kind in sets}
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": uid, "gid": uid},
            "args": list(command),
            "env": ["PATH=/usr/bin:/usr/sbin:/bin", "HOME=/tmp"],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": ambient_free,
        },
        "root": {"path": "root", "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=1777"]},
            {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
            {"destination": "/w", "type": "bind", "source": str(files), "options": ["rbind", "ro"]},
        ],
        "linux": linux,
    }


def run_bundle(
    runtime: Sequence[str],
    place: Path,
    command: Sequence[str],
    seccomp: Json | None,
    *,
    files: Path,
    uid: int = 0,
    caps: Sequence[str] = (),
) -> process.Result:
    """Run a command in a bundle below `place` with a runtime, the start of whose command line is given."""
    bundle = place / name()
    empty_root(bundle / "root")
    config = runtime_config(command, seccomp, files, uid=uid, caps=caps)
    (bundle / "config.json").write_text(json.dumps(config), encoding="utf-8")
    label = bundle.name
    try:
        # runsc would change the owner of /dev/null
        return process.run(*runtime, "run", "--bundle", bundle, label, timeout=120, check=False, stdin=b"")
    finally:
        process.run(*runtime, "delete", "--force", label, timeout=60, check=False)


def runtime_command(runtime: str, state: Path) -> list[str]:
    """The command line of a runtime. crun refuses hybrid cgroups, so the second hierarchy is hidden."""
    command = [runtime, "--root", str(state)]
    if runtime == "crun" and os.path.ismount("/sys/fs/cgroup/unified"):
        script = 'umount /sys/fs/cgroup/unified && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, "sh", *command]
    if runtime == "runsc":
        return [*command, "--oci-seccomp", "--network=none", "--platform=ptrace", "--ignore-cgroups"]
    return command
