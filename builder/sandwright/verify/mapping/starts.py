"""Starts of user mapping cases: the mapped image in each runtime's form, and the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from sandwright.image.export import write_archive
from sandwright.render.accounts import Account, group_file, passwd_file
from sandwright.rootfs.bundles import bundle, convert
from sandwright.rootfs.images.source import Image
from sandwright.runtime.contract import RunAs, StartableImage
from sandwright.verify.mapping.cases import CALLER, NAMED, MappingCase
from sandwright.verify.mapping.seen import WORK

PROVED = ("runc", "runsc", "docker", "podman")
"""The runtimes under which an image is proved."""

_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "SETGID", "SETPCAP", "SETUID")
"""The capabilities that our first process uses. Engines give them by default."""


@dataclass(frozen=True)
class MappedImage:
    """An image with `config.init` that can be started. `accounts` are account files with the caller."""

    startable: StartableImage
    entrypoint: tuple[str, ...]
    accounts: Mapping[str, Path]

    def run_as(self, case: MappingCase, work: Path) -> RunAs:
        """The user that a case runs as; `work` is the directory of the host that it sees."""
        return RunAs(
            user=case.user or (0, 0),
            entrypoint=self.entrypoint,
            environment={}
            if case.requested_ids is None
            else {"SANDWRIGHT_USER": f"{case.requested_ids[0]}:{case.requested_ids[1]}"},
            mounts={WORK: work, **(self.accounts if case.rendered else {})},
            writable=frozenset({WORK}),
            capabilities=() if case.user else tuple(f"CAP_{name}" for name in _CAPABILITIES),
            read_only=case.read_only,
        )


def mapped_image(
    layout: Path, image: Image, platform: str, *, store: Path, hidden: Path, scratch: Path
) -> MappedImage:
    """Make an image ready to be started; `hidden`, for its bundle, and `scratch` are empty directories.

    No sandbox may write in `hidden`. Accounts other than ours pass through `scratch`.
    """
    settings = convert.BundleOptions(arguments=("a start's own",))
    bundle.write_bundle(image, hidden, store=store, settings=settings)
    startable = StartableImage(layout.name, platform, hidden, partial(_write_archive, layout, platform))
    entrypoint = tuple(convert.image_section(image.config).get("Entrypoint") or ())
    return MappedImage(startable, entrypoint, _account_files(scratch))


def _write_archive(layout: Path, platform: str, sink: BinaryIO, reference: str) -> None:
    write_archive(layout, platform, sink, reference=reference)


def _account_files(scratch: Path) -> Mapping[str, Path]:
    """Account files with the caller, as they are rendered for engines: path inside → file."""
    uid, gid = CALLER
    account = Account(NAMED[0], uid, gid, NAMED[1])
    found = {}
    for name, content in (("passwd", passwd_file(account)), ("group", group_file(account))):
        found[f"/etc/{name}"] = file = scratch / name
        file.write_bytes(content)
        file.chmod(0o644)
    return found
