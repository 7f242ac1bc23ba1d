"""Image definitions: `image.yaml`, validated and frozen.

A definition says what the image contains, not how it is built. Its base is packages of a Debian suite,
another image, or an image of a registry; some fields need the first.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from sandwright import document
from sandwright.document import FieldErrors
from sandwright.errors import DocumentError, Problem, UsageError
from sandwright.image.fields import Glob, Line, PackageName
from sandwright.image.sections import (
    Accounts,
    Config,
    DebianBase,
    Directory,
    Faults,
    ImageBase,
    ImageFile,
    Layers,
    Link,
    RegistryBase,
    Section,
    Smoke,
)
from sandwright.reading import read_start
from sandwright.validation import load_model

FILE = "image.yaml"

Platform = Literal["linux/amd64", "linux/arm64"]
Declaration = Literal[
    "merged-usr", "accounts", "ca-bundle", "ld-cache", "package-metadata", "os-release", "tmp", "nsswitch"
]

ONLY_DEBIAN = ("configure", "packages", "without", "exclude", "keep", "declare", "layers")
"""Fields that need a Debian suite as base."""


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    faults = [
        ((index,), f"{value!r} is there twice")
        for index, value in enumerate(values)
        if value in values[:index]
    ]
    if faults:
        raise FieldErrors(faults)
    return values


class ImageDefinition(Section):
    """One image. Lists keep their order; absent fields have the defaults given here."""

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    """Version of this format."""
    description: Line
    """One sentence; becomes the image's description annotation."""
    base: DebianBase | ImageBase | RegistryBase
    configure: Literal["declared", "scripts"] | None = None
    """How packages are configured; required with a Debian base. `declared`: files straight from the packages,
    and what `declare` names instead of maintainer scripts. `scripts`: mmdebstrap runs the scripts."""
    packages: Annotated[tuple[PackageName, ...], AfterValidator(_distinct)] = ()
    """Packages wanted; what they depend on is added, what they recommend is not."""
    without: dict[PackageName, Line] = Field(default={})
    """Packages taken to be there although they are not, each with the reason."""
    exclude: tuple[Glob, ...] = ()
    """Paths of packages that are left out, as wildcards in which `*` matches `/` too."""
    keep: tuple[Glob, ...] = ()
    """Exceptions to `exclude`."""
    declare: Annotated[tuple[Declaration, ...], AfterValidator(_distinct)] = ()
    """What is done in place of maintainer scripts; only with `configure: declared`."""
    accounts: Accounts = Accounts.model_construct()
    directories: tuple[Directory, ...] = ()
    files: tuple[ImageFile, ...] = ()
    links: tuple[Link, ...] = ()
    config: Config = Config.model_construct()
    platforms: Annotated[tuple[Platform, ...], Field(min_length=1), AfterValidator(_distinct)] = (
        "linux/amd64",
        "linux/arm64",
    )
    smoke: Smoke = Smoke.model_construct()
    layers: Layers = Layers.model_construct()

    _folder: Path = PrivateAttr(default=Path())

    @property
    def name(self) -> str:
        """The image's name: that of the directory its definition is in."""
        return self._folder.absolute().name

    @property
    def folder(self) -> Path:
        """The directory its definition is in, with its lock and its files."""
        return self._folder

    @property
    def suite(self) -> str | None:
        """Code name of the Debian suite; None when the base is an image."""
        return self.base.debian if isinstance(self.base, DebianBase) else None

    @property
    def parent(self) -> str | None:
        """Name of the image of ours that is the base; None when the base is something else."""
        return self.base.image if isinstance(self.base, ImageBase) else None

    @property
    def reference(self) -> str | None:
        """Reference of the image of a registry that is the base; None when the base is something else."""
        return self.base.registry if isinstance(self.base, RegistryBase) else None

    def wanted(self) -> Callable[[str], bool]:
        """A predicate that decides by the absolute path in a package whether a file belongs to the image.

        An unwanted directory still exists when something in it is wanted.
        """
        exclude, keep = _any_of(self.exclude), _any_of(self.keep)
        return lambda path: not exclude(path) or keep(path)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        faults = [*_base_faults(self), *_path_faults(self), *_account_faults(self)]
        if faults:
            raise FieldErrors(faults)
        return self


def load_definition(folder: Path) -> ImageDefinition:
    """Read the definition in a directory, whose name becomes the image's.

    Raise DocumentError with all its faults, also for a `source` that is no regular file below the directory.
    """
    source = _read(folder)
    definition = load_model(ImageDefinition, source, context={"folder": folder})
    definition._folder = folder
    faults: list[tuple[document.Path, str]] = [
        (("files", index, "source"), message)
        for index, file in enumerate(definition.files)
        if file.source and (message := _source_fault(folder, file.source))
    ]
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", definition.name):
        faults.append(((), f"'{definition.name}' can't name an image: words of a-z and 0-9, joined by '-'"))
    _refuse(source, faults)
    return definition


def load_catalogue(root: Path) -> dict[str, ImageDefinition]:
    """Read every definition below a directory: name → definition, each after its base.

    Raise DocumentError for the first that is invalid, has an unknown base, a platform that its base lacks, or
    a circle of bases; UsageError when there is no definition.
    """
    folders = sorted(path.parent for path in root.glob(f"*/{FILE}") if not path.parent.name.startswith("."))
    if not folders:
        raise UsageError(f"{root} holds no image definitions: nothing like NAME/{FILE}")
    definitions = {folder.name: load_definition(folder) for folder in folders}
    ordered: dict[str, ImageDefinition] = {}
    for definition in definitions.values():
        for each in reversed(_line_of_bases(definition, definitions)):
            ordered.setdefault(each.name, each)
    return ordered


def _base_faults(definition: ImageDefinition) -> Faults:
    given = definition.model_fields_set
    if definition.suite is None:
        for name in ONLY_DEBIAN:
            if name in given:
                yield (name,), "only an image with a Debian base can have this"
        return
    if definition.configure is None:
        yield ("configure",), "is required with a Debian base"
    if not definition.packages:
        yield ("packages",), "an image with a Debian base needs at least one package"
    if definition.configure == "scripts" and "declare" in given:
        yield ("declare",), "can't be with 'configure: scripts', where maintainer scripts do this"
    for name in definition.packages:
        if name in definition.without:
            yield ("without", name), "is in 'packages' too"


def _path_faults(definition: ImageDefinition) -> Faults:
    seen: dict[str, str] = {}
    kinds: Mapping[str, tuple[Directory | ImageFile | Link, ...]] = {
        "directories": definition.directories,
        "files": definition.files,
        "links": definition.links,
    }
    for kind, entries in kinds.items():
        for index, entry in enumerate(entries):
            before = seen.setdefault(entry.path, f"{kind}[{index}]")
            if before != f"{kind}[{index}]":
                yield (kind, index, "path"), f"'{entry.path}' is made by {before} already"


def _account_faults(definition: ImageDefinition) -> Faults:
    """Names that are missing from `accounts`, where no other accounts exist."""
    if "accounts" not in definition.declare:
        return
    users = {user.name for user in definition.accounts.users}
    groups = {group.name for group in definition.accounts.groups}
    owned: Mapping[str, tuple[Directory | ImageFile, ...]] = {
        "directories": definition.directories,
        "files": definition.files,
    }
    for kind, entries in owned.items():
        for index, entry in enumerate(entries):
            if isinstance(entry.user, str) and entry.user not in users:
                yield (kind, index, "user"), f"there is no user '{entry.user}' in 'accounts'"
            if isinstance(entry.group, str) and entry.group not in groups:
                yield (kind, index, "group"), f"there is no group '{entry.group}' in 'accounts'"
    if definition.config.init not in (None, *users):
        yield ("config", "init"), f"there is no user '{definition.config.init}' in 'accounts'"
    user, _, group = (definition.config.user or "").partition(":")
    if user and not user.isdigit() and user not in users:
        yield ("config", "user"), f"there is no user '{user}' in 'accounts'"
    if group and not group.isdigit() and group not in groups:
        yield ("config", "user"), f"there is no group '{group}' in 'accounts'"


def _any_of(globs: tuple[str, ...]) -> Callable[[str], bool]:
    if not globs:
        return lambda _: False
    pattern = re.compile("|".join(fnmatch.translate(glob) for glob in globs))
    return lambda path: pattern.match(path) is not None


def _read(folder: Path) -> document.Document:
    path = folder / FILE
    try:
        raw = read_start(path, size=document.MAX_BYTES + 1)
    except OSError as error:
        problem = Problem(0, 0, "", f"can't be read: {error.strerror}")
        raise DocumentError(str(path), [problem]) from None
    return document.parse(raw, file=str(path))


def _refuse(source: document.Document, faults: Iterable[tuple[document.Path, str]]) -> None:
    problems = [Problem(*source.position(path), document.field_name(path), text) for path, text in faults]
    if problems:
        raise DocumentError(source.file, problems)


def _source_fault(folder: Path, source: str) -> str | None:
    path = folder
    for part in source.split("/"):
        path = path / part
        if path.is_symlink():
            return f"'{source}' leads through a symbolic link"
    return None if path.is_file() else f"there is no file '{source}'"


def _line_of_bases(
    definition: ImageDefinition, definitions: Mapping[str, ImageDefinition]
) -> list[ImageDefinition]:
    """The image, its base, the base of that, and so on."""
    line = [definition]
    while (name := line[-1].parent) is not None:
        fault = _base_fault(line, name, definitions)
        if fault:
            _refuse(_read(line[-1].folder), [fault])
        line.append(definitions[name])
    return line


def _base_fault(
    line: list[ImageDefinition], name: str, definitions: Mapping[str, ImageDefinition]
) -> tuple[document.Path, str] | None:
    where = ("base", "image")
    if name not in definitions:
        return where, f"there is no image '{name}'; there is {', '.join(definitions)}"
    names = [each.name for each in line]
    if name in names:
        return where, f"an image can't be its own base: {' → '.join([*names, name])}"
    lacking = [platform for platform in line[-1].platforms if platform not in definitions[name].platforms]
    if lacking:
        return ("platforms",), f"its base '{name}' is not built for {', '.join(lacking)}"
    return None
