"""Makes the build context of an image: its Dockerfile, the steps that it runs, their lists, the packages."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.documents.model import plain
from sandwright.image import accounts, init
from sandwright.image.additions import checksums
from sandwright.image.baselock import BaseLock
from sandwright.image.definition import ImageDefinition
from sandwright.image.dockerfile import additions as added
from sandwright.image.dockerfile.context import DOCKERFILE, DockerfileContext
from sandwright.image.dockerfile.render import Recipe, adds_accounts, render_dockerfile
from sandwright.image.dockerfile.shellrules import residue_function, wanted_function
from sandwright.image.lock import Lock, LockedPackage
from sandwright.image.sections import Config
from sandwright.image.tree import BASE
from sandwright.resources import data_path
from sandwright.rootfs.descriptor import canonical

REPOSITORY = "localhost/sandwright"
"""The repository of the images that Dockerfiles build on: at localhost, so that no engine pulls a
stranger's."""

WORK = "work"
"""The path of the first stages' files in the context."""

_SUMS = f"{WORK}/SHA256SUMS"
_LENGTH = 16
_NOTHING = Config()
_NO_PART = {"smoke", "compression"}
"""Sections of a definition that do not affect an engine's image."""


@dataclass(frozen=True)
class BaseReferences:
    """The base of an image: the references of the builder and, for a derived image, of the base.

    `config` holds the default settings of containers of the base.
    """

    builder: str
    base: str | None = None
    config: Config = _NOTHING


def fingerprint(
    definition: ImageDefinition, lock: Lock | BaseLock | None, platform: str, *, base: str = ""
) -> str:
    """A short name for an image's tree on one platform: the digest of everything that decides about it.

    `base` is that of the image below. It is known without anything being built.
    """
    pins: object = None
    if isinstance(lock, Lock):
        pins = [lock.epoch, [package.sha256 for package in lock.packages(platform)]]
    elif lock is not None:
        pins = [lock.epoch, lock.platforms[platform].digest]
    document = {
        "definition": {name: value for name, value in plain(definition).items() if name not in _NO_PART},
        "files": checksums(definition),
        "pins": pins,
        "platform": platform,
        "base": base,
        "init": None if definition.config.init is None else init.checksum(),
    }
    return hashlib.sha256(canonical(document)).hexdigest()[:_LENGTH]


def make_context(
    definition: ImageDefinition,
    bases: Sequence[ImageDefinition],
    platform: str,
    ground: BaseReferences,
    *,
    epoch: int,
    packages: Sequence[LockedPackage] = (),
    files: Mapping[str, Path] | None = None,
) -> DockerfileContext:
    """The context of an image for one platform.

    `bases` are the definitions below it, nearest first. `files` has the packages by their SHA-256; without it
    there are none in the context, which then is good for reading only. Raise BuildError for a definition that
    a Dockerfile cannot express.
    """
    program = None if definition.config.init is None else init.program(platform)
    found = added.additions(definition, bases, epoch, init=program)
    sums = "".join(f"{each.sha256}  packages/{file_name(each)}\n" for each in sorted(packages)).encode()
    recipe = Recipe(
        platform,
        epoch,
        ground.builder,
        ground.base,
        definition.config.over(ground.config),
        hashlib.sha256(sums).hexdigest(),
        [each.describe() for each in found],
        added.user_id(definition, bases),
    )
    contents: dict[str, bytes | Path] = {DOCKERFILE: render_dockerfile(definition, recipe).encode()}
    if found:
        contents[added.ARCHIVE] = _archive(found)
    if packages or adds_accounts(definition):
        contents.update(_step_files())
        contents.update(_definition(definition, packages))
    if packages:
        contents[_SUMS] = sums
    for each in packages if files is not None else ():
        assert files is not None
        contents[f"{WORK}/packages/{file_name(each)}"] = files[each.sha256]
    return DockerfileContext(contents, epoch)


def file_name(package: LockedPackage) -> str:
    """The name of a package's file, as apt's cache has it: the colon of an epoch is escaped."""
    return f"{package.name}_{package.version.replace(':', '%3a')}_{package.architecture}.deb"


def _archive(found: Sequence[added.Addition]) -> bytes:
    buffer = io.BytesIO()
    added.write_archive(found, buffer)
    return buffer.getvalue()


def _step_files() -> dict[str, bytes | Path]:
    folder = data_path("images", "engine", "steps")
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return {f"{WORK}/steps/{path.name}": path.read_bytes() for path in files}


def _definition(definition: ImageDefinition, packages: Sequence[LockedPackage]) -> dict[str, bytes | Path]:
    """The files that the steps read: lists, and shell functions."""
    listed = definition.accounts
    texts: dict[str, bytes] = {}
    if adds_accounts(definition):
        texts["users"] = b"".join(map(accounts.passwd_line, listed.users))
        texts["groups"] = b"".join(accounts.group_line(group, group.members) for group in listed.groups)
    if packages:
        texts["unpack-order"] = _join_lines(map(file_name, _unpack_order(packages)))
        texts["wanted"] = wanted_function(definition.exclude, definition.keep).encode()
    if "accounts" in definition.declare:
        for path, content in accounts.fresh(listed.users, listed.groups).items():
            texts[path.decode().rpartition("/")[2]] = content
    if definition.configure == "scripts":
        names = [each.name for each in packages]
        filters = [f"path-exclude={glob}\n" for glob in definition.exclude]
        filters += [f"path-include={glob}\n" for glob in definition.keep]
        texts["dpkg.cfg"] = "".join(filters).encode()
        texts["install-order"] = _join_lines(file_name(each) for each in sorted(packages))
        texts["wanted-packages"] = _join_lines(f"{each.name} {each.version}" for each in sorted(packages))
        texts["residue"] = residue_function(names).encode()
    return {f"{WORK}/{name}": content for name, content in texts.items()}


def _unpack_order(packages: Sequence[LockedPackage]) -> list[LockedPackage]:
    """The package that decides a directory's metadata comes last: base-files, before it the first by name."""
    backwards = sorted(packages, reverse=True)
    return sorted(backwards, key=lambda each: each.name == BASE)


def _join_lines(texts: Iterable[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()
