"""Starts an image in the ways of `cases`, under runc, runsc, Docker and Podman, each with its own words.

Nothing is written to a root that others share: the runtimes get a layer of their own over it, in a mount
namespace that ends with them.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sandwright import process
from sandwright.errors import HostError, UsageError
from sandwright.host import collect_host
from sandwright.image.export import write_archive
from sandwright.render.accounts import Account, group_file, passwd_file
from sandwright.rootfs.bundles import bundle
from sandwright.rootfs.bundles.convert import BundleOptions
from sandwright.rootfs.images.source import open_image
from sandwright.runtime.contract import PREFIX
from sandwright.runtime.launch import base_environment
from sandwright.runtime.podman import containers_conf
from sandwright.verify.mapping.cases import CALLER, NAMED, MappingCase
from sandwright.verify.mapping.seen import WORK

LIMIT = 120.0
"""Seconds for one start."""

_LAYER = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
shift 2
exec "$@"
"""
"""Made in a mount namespace, so that nothing has to be unmounted."""

_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "SETGID", "SETPCAP", "SETUID")
"""What our first process uses. Engines give it by default."""


@dataclass(frozen=True)
class MappedImage:
    """An image: the layout it lies in, its platform, and a directory for root file systems."""

    layout: Path
    platform: str
    store: Path


@dataclass(frozen=True)
class MappingStart:
    """A case with a command, and the directory of the host that it sees."""

    case: MappingCase
    command: tuple[str, ...]
    work: Path


class Starter(Protocol):
    """A runtime that is ready."""

    def run(self, start: MappingStart) -> process.Result:
        """Start, wait for the end, remove what there was. Raise CommandFailed when it takes too long."""
        ...


def starter(runtime: str, subject: MappedImage, scratch: Path) -> AbstractContextManager[Starter]:
    """A runtime by its name, for the length of a `with`; `scratch` is a directory of its own.

    Raise UsageError for one that there isn't, HostError for one that starts nothing here.
    """
    match runtime:
        case "runc":
            return contextlib.nullcontext(_Oci(("runc",), subject, scratch))
        case "runsc":
            return contextlib.nullcontext(_Oci(_runsc(), subject, scratch))
        case "docker":
            return _docker(subject, scratch)
        case "podman":
            return _podman(subject, scratch)
        case _:
            raise UsageError(f"no runtime {runtime!r}; there are {', '.join(STARTERS)}")


STARTERS: Sequence[str] = ("runc", "runsc", "docker", "podman")


def _runsc() -> tuple[str, ...]:
    """The words of runsc, with a platform that it knows and that works here. Raise HostError for none."""
    said = ""
    for platform in ("systrap", "ptrace"):
        words = ("runsc", f"--platform={platform}", "--network=none", "--ignore-cgroups")
        tried = process.run(*words, "do", "true", timeout=LIMIT, check=False)
        if tried:
            return words
        said = tried.stderr.strip()
    raise HostError(f"runsc starts nothing here: {said[-300:]}")


def _accounts(scratch: Path) -> Mapping[str, Path]:
    """Files that know the caller, as they are rendered for engines: path inside → file."""
    uid, gid = CALLER
    account = Account(NAMED[0], uid, gid, NAMED[1])
    found = {}
    for name, content in (("passwd", passwd_file(account)), ("group", group_file(account))):
        found[f"/etc/{name}"] = file = scratch / name
        file.write_bytes(content)
        file.chmod(0o644)
    return found


def _environment(case: MappingCase) -> dict[str, str]:
    return {} if case.asked is None else {"SANDWRIGHT_USER": f"{case.asked[0]}:{case.asked[1]}"}


@dataclass(frozen=True)
class _Oci:
    """A runtime that takes a bundle."""

    words: tuple[str, ...]
    subject: MappedImage
    scratch: Path

    def run(self, start: MappingStart) -> process.Result:
        name = PREFIX + uuid.uuid4().hex[:16]
        place = self.scratch / name
        (place / "layer").mkdir(parents=True)
        runtime = (*self.words, "--root", str(place / "state"))
        lower = self._write(start, place)
        argv = ("unshare", "--mount", "sh", "-c", _LAYER, "sh", place / "layer", lower)
        try:
            return process.run(*argv, *runtime, "run", "--bundle", place, name, timeout=LIMIT, check=False)
        finally:
            process.run(*runtime, "delete", "--force", name, timeout=LIMIT, check=False)

    def _write(self, start: MappingStart, place: Path) -> Path:
        """Write the bundle; give the shared root."""
        case = start.case
        image = open_image(self.subject.layout, platform=self.subject.platform)
        settings = BundleOptions(arguments=start.command, environment=_environment(case))
        made = bundle.write_bundle(image, place, store=self.subject.store, settings=settings)
        config: dict[str, Any] = json.loads((place / "config.json").read_bytes())
        uid, gid = case.user or (0, 0)
        held = [] if case.user else [f"CAP_{name}" for name in _CAPABILITIES]
        config["process"] |= {
            "user": {"uid": uid, "gid": gid},
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), held),
            "env": [each for each in config["process"]["env"] if not each.startswith("HOME=")],
        }
        config["root"] = {"path": str(place / "layer" / "root"), "readonly": case.read_only}
        mounts = {WORK: start.work, **(_accounts(place) if case.rendered else {})}
        for target, source in mounts.items():
            options = ["rbind", "rw" if target == WORK else "ro"]
            config["mounts"].append(
                {"destination": target, "type": "bind", "source": str(source), "options": options}
            )
        (place / "config.json").write_text(json.dumps(config))
        return made.rootfs.path


@dataclass(frozen=True)
class _Engine:
    """An engine with the image loaded. `words` begin its command line."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    reference: str
    scratch: Path
    options: tuple[str, ...] = field(default=())

    def run(self, start: MappingStart) -> process.Result:
        case, name = start.case, PREFIX + uuid.uuid4().hex[:16]
        user = ":".join(map(str, case.user)) if case.user else "0:0"
        options = ["--rm", f"--name={name}", "--pull=never", "--network=none", f"--user={user}"]
        options += [f"--env={key}={value}" for key, value in _environment(case).items()]
        options += [f"--volume={start.work}:{WORK}"]
        if case.read_only:
            options.append("--read-only")
        if case.rendered:
            options += [f"--volume={file}:{path}:ro" for path, file in _accounts(self.scratch).items()]
        argv = (*self.words, "run", *options, *self.options, self.reference, *start.command)
        try:
            return self.tell(*argv)
        finally:
            self.tell(*self.words, "rm", "--force", name)

    def tell(self, *argv: str) -> process.Result:
        """Podman's monitor leaves a file `oom` where it is called."""
        return process.run(*argv, timeout=LIMIT, env=self.environment, cwd=self.scratch, check=False)


@contextlib.contextmanager
def _loaded(
    words: tuple[str, ...], environment: Mapping[str, str], subject: MappedImage, scratch: Path, *options: str
) -> Iterator[_Engine]:
    reference = f"{PREFIX}{uuid.uuid4().hex[:16]}:latest"
    archive = scratch / "archive"
    with archive.open("wb") as sink:
        write_archive(subject.layout, subject.platform, sink, reference=reference)
    process.run(*words, "load", "--input", archive, timeout=LIMIT, env=environment)
    archive.unlink()
    engine = _Engine(words, environment, reference, scratch, options)
    try:
        yield engine
    finally:
        engine.tell(*words, "rmi", "--force", reference)


def _docker(subject: MappedImage, scratch: Path) -> AbstractContextManager[Starter]:
    return _loaded(("docker",), _engine_environment(), subject, scratch)


@contextlib.contextmanager
def _podman(subject: MappedImage, scratch: Path) -> Iterator[Starter]:
    """With a store of its own, and without the account that it would make up for an unknown number."""
    (scratch / "containers.conf").write_text(containers_conf(collect_host()))
    store = [word for name in ("root", "runroot", "tmpdir") for word in (f"--{name}", str(scratch / name))]
    words = ("podman", *store, "--storage-driver=overlay", "--runtime=runc")
    environment = {**_engine_environment(), "CONTAINERS_CONF": str(scratch / "containers.conf")}
    with _loaded(words, environment, subject, scratch, "--passwd=false") as engine:
        yield engine


def _engine_environment() -> dict[str, str]:
    host = {"DOCKER_HOST": os.environ["DOCKER_HOST"]} if "DOCKER_HOST" in os.environ else {}
    return {**base_environment(), **host}
