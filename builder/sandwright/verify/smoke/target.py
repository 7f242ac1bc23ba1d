"""The target of a smoke run and the inputs of its start: a bundle, an archive, and the expected values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from sandwright.errors import BuildError, IntegrityError
from sandwright.host import MachineFacts
from sandwright.image.definition import ImageDefinition
from sandwright.image.documents import split_entrypoint
from sandwright.image.export import write_archive as write
from sandwright.render.baseline import load_baseline
from sandwright.rootfs.bundles import bundle, convert
from sandwright.rootfs.bundles.identity import read_accounts, resolve_user
from sandwright.rootfs.bundles.program import find_program, search_path
from sandwright.rootfs.images.source import Image, open_image
from sandwright.rootfs.securejoin import Root
from sandwright.runtime import bundles, contract
from sandwright.verify.smoke.expected import GuestExpectation, ImageProgram, Outside

_PYTHONS = ("python3", "python")


@dataclass(frozen=True)
class SmokeTarget:
    """One image for one platform, as it was built.

    `layout` is the OCI layout it lies in, `digest` that of its manifest. `bases` are the definitions below
    `definition`, nearest first.
    """

    name: str
    platform: str
    layout: Path
    digest: str
    definition: ImageDefinition
    bases: tuple[ImageDefinition, ...] = ()


@dataclass(frozen=True)
class PreparedImage:
    """A target that can be started. `python` is the path of its interpreter; None when it has none."""

    target: SmokeTarget
    subject: contract.StartableImage
    expected: GuestExpectation
    python: str | None
    size: int
    layers: int


def prepare(target: SmokeTarget, directory: Path, *, store: Path, host: MachineFacts) -> PreparedImage:
    """Make the bundle of a target in `directory`, over a root file system shared in `store`.

    Raise IntegrityError if the layout holds another image than the target, BuildError if it cannot be started
    at all, and the exceptions of unpacking.
    """
    image = open_image(target.layout, platform=target.platform)
    if target.digest != image.digest:
        raise IntegrityError(f"{target.layout}: {target.platform} is {image.digest}, not {target.digest}")
    rootfs = bundle.unpacked(image, store, rootless=not host.is_root)
    config = convert.image_section(image.config)
    programs = _image_programs(target.definition, _entrypoint(config))
    python = _find_python(rootfs.path, image)
    if python is None and not programs:
        raise BuildError(
            f"{target.name}: it has no Python, and its definition names no program: nothing to start"
        )
    command = (python,) if python else programs[0].argv
    written = bundle.write_bundle(image, directory, store=store, command=command)
    with Root(rootfs.path) as root:
        accounts = read_accounts(root)
    identity = resolve_user(convert.user(config), accounts)
    bundles.set_user(directory, identity)
    account = accounts.account(identity.uid)
    expected = GuestExpectation(
        platform=target.platform,
        uid=identity.uid,
        gid=identity.gid,
        outside=describe_host(),
        groups=frozenset(identity.groups),
        groups_may_lack=not host.is_root,
        user=account.name if account else None,
        read_only=written.config["root"]["readonly"],
        environment=dict(entry.split("=", 1) for entry in config.get("Env") or ()),
        programs=programs,
        authorities=_has_authorities(target),
    )

    def write_archive(sink: BinaryIO, reference: str) -> None:
        write(target.layout, target.platform, sink, reference=reference)

    subject = contract.StartableImage(target.name, target.platform, directory, write_archive)
    size = sum(layer.size for layer in image.layers)
    return PreparedImage(target, subject, expected, python, size, len(image.layers))


def _entrypoint(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The image's entrypoint, without our first process if that would run as root.

    It needs capabilities that a smoke test does not give; `verify-mapping` starts it with them.
    """
    entrypoint = tuple(config.get("Entrypoint") or ())
    account, rest = split_entrypoint(entrypoint)
    return rest if account and convert.user(config).partition(":")[0] in ("", "0", "root") else entrypoint


def _image_programs(definition: ImageDefinition, entrypoint: tuple[str, ...]) -> tuple[ImageProgram, ...]:
    """The definition's programs and checks, each behind the image's entrypoint, as engines start them."""
    plain = [ImageProgram(" ".join(argv), (*entrypoint, *argv)) for argv in definition.smoke.programs]
    checks = [
        ImageProgram(check.name, (*entrypoint, *check.run), check.status, check.prints)
        for check in definition.smoke.checks
    ]
    return (*plain, *checks)


def _has_authorities(target: SmokeTarget) -> bool:
    definitions = (target.definition, *target.bases)
    return any("ca-certificates" in d.packages or "ca-bundle" in d.declare for d in definitions)


def describe_host() -> Outside:
    """The host, as the checks compare the inside with it."""
    try:
        namespace = str(Path("/proc/self/ns/mnt").readlink())
    except OSError:
        namespace = ""
    return Outside(os.uname().release, namespace)


def _find_python(rootfs: Path, image: Image) -> str | None:
    """The path of the image's Python, on its own PATH."""
    config = convert.image_section(image.config)
    baseline = load_baseline()
    environment = convert.process_env(config, convert.PLAIN, {"PATH": baseline.path})
    with Root(rootfs) as root:
        for name in _PYTHONS:
            try:
                located = find_program(root, name, path=search_path(environment), cwd="/", baseline=baseline)
            except BuildError:
                continue
            if located is not None:
                return os.fsdecode(located.path)
    return None
