"""Image definitions: `image.yaml`, validated and frozen.

A definition lists the content of an image, not the steps of its build. Its base is packages of a Debian
suite, another image, or an image of a registry; some fields need the first.
"""

import fnmatch
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from sandwright.documents.checks import DISTINCT, NONEMPTY_LIST
from sandwright.documents.decode import decode
from sandwright.documents.document import MAX_BYTES, Document
from sandwright.documents.document import Path as FieldPath
from sandwright.documents.yaml import parse_yaml
from sandwright.errors import DocumentError, Problem, UsageError
from sandwright.image.fields import CompressionName, Glob, Line, PackageName, PackageSpec
from sandwright.image.sections import (
    Accounts,
    AlpineBase,
    AptArchive,
    Config,
    ConsistentAccounts,
    DebianBase,
    Directory,
    Faults,
    FileOfOneOrigin,
    ImageBase,
    ImageFile,
    Languages,
    Layers,
    Link,
    RegistryBase,
    Smoke,
)
from sandwright.reading import quoting_no_link, read_start, without_links

FILE = "image.yaml"
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
"""Names of images: those of their directories."""

Platform = Literal["linux/amd64", "linux/arm64"]
Declaration = Literal[
    "merged-usr",
    "accounts",
    "ca-bundle",
    "ld-cache",
    "package-metadata",
    "os-release",
    "tmp",
    "nsswitch",
    "busybox-applets",
    "alternatives",
]

ONLY_PACKAGES = ("configure", "packages", "without", "exclude", "keep", "declare", "layers", "languages")
"""Fields that need packages of a distribution as base."""
_NOT_DECLARED: Mapping[str, tuple[Declaration, ...]] = {
    "alpine": ("ld-cache", "nsswitch", "alternatives"),
    "debian": ("busybox-applets",),
}
"""Declarations that mean nothing in a distribution."""


@dataclass(frozen=True, kw_only=True)
class ImageDefinition:
    """One image. Lists keep their order; absent fields have the defaults given here."""

    schema_version: Literal[1] = field(metadata={"key": "schema"})
    """Version of this format."""
    description: Line
    """One sentence; becomes the image's description annotation."""
    base: DebianBase | AlpineBase | ImageBase | RegistryBase
    configure: Literal["declared", "scripts"] | None = None
    """The configuration of packages; required with a base of packages. `declared`: files straight from the
    packages, and the paths of `declare` instead of their scripts. `scripts`: mmdebstrap runs the scripts;
    only for Debian."""
    packages: Annotated[tuple[PackageSpec, ...], DISTINCT] = ()
    """Packages, as `name`, `name=version` or `name/suite`. Their dependencies are added, their
    recommendations are not."""
    without: dict[PackageName, Line] = field(default_factory=dict)
    """Packages taken to be there although they are not, each with the reason."""
    exclude: tuple[Glob, ...] = ()
    """Paths of packages that are left out, as wildcards in which `*` matches `/` too."""
    keep: tuple[Glob, ...] = ()
    """Exceptions to `exclude`."""
    declare: Annotated[tuple[Declaration, ...], DISTINCT] = ()
    """The steps in place of maintainer scripts; only with `configure: declared`."""
    languages: Languages = field(default_factory=Languages)
    accounts: ConsistentAccounts = field(default_factory=Accounts)
    directories: tuple[Directory, ...] = ()
    files: tuple[FileOfOneOrigin, ...] = ()
    links: tuple[Link, ...] = ()
    config: Config = field(default_factory=Config)
    platforms: Annotated[tuple[Platform, ...], NONEMPTY_LIST, DISTINCT] = (
        "linux/amd64",
        "linux/arm64",
    )
    smoke: Smoke = field(default_factory=Smoke)
    layers: Layers = field(default_factory=Layers)
    compression: CompressionName | None = None
    """The compression of its own layers; absent: `gzip:1`. Layers of its base stay as they are."""

    folder: Path = field(default_factory=Path, metadata={"key": None})
    """The directory its definition is in, with its lock and its files."""
    real: Path = field(default_factory=Path, metadata={"key": None})
    """Its real path when it was loaded: a sandbox may replace a directory by a link before files are read."""

    @property
    def name(self) -> str:
        """The image's name: that of the directory its definition is in."""
        return self.folder.absolute().name

    @property
    def suite(self) -> str | None:
        """The suite or release whose packages the image has; None when the base is an image."""
        match self.base:
            case DebianBase():
                return self.base.debian
            case AlpineBase():
                return self.base.alpine if self.base.alpine == "edge" else f"v{self.base.alpine}"
            case _:
                return None

    @property
    def distribution(self) -> Literal["debian", "alpine"] | None:
        """The distribution whose packages the image has; None when the base is an image."""
        if self.suite is None:
            return None
        return "debian" if isinstance(self.base, DebianBase) else "alpine"

    @property
    def keys(self) -> tuple[str, ...]:
        """The files with keys of archives, below its directory."""
        if isinstance(self.base, AlpineBase):
            return self.base.keys
        return tuple(each.key for each in self.archives)

    @property
    def archives(self) -> tuple[AptArchive, ...]:
        """Archives of packages besides Debian's."""
        return self.base.sources if isinstance(self.base, DebianBase) else ()

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


def load_definition(folder: Path) -> ImageDefinition:
    """Read the definition in a directory, whose name becomes the image's.

    Raise DocumentError with all its faults, also for a `source` that is no regular file below the directory.
    """
    real = without_links(folder)
    source = _read_definition(folder, real)
    with quoting_no_link(folder / FILE, str(folder / FILE)):
        found = replace(decode(ImageDefinition, source), folder=folder, real=real)
        keys = source.data if isinstance(source.data, dict) else {}
        source.refuse([*_base_faults(found, keys), *_path_faults(found), *_account_faults(found)])
        source.refuse(_folder_faults(found))
        return found


def package_name(spec: str) -> str:
    """The name in `name`, `name=version` or `name/suite`."""
    return re.split("[=/]", spec, maxsplit=1)[0]


def _folder_faults(definition: ImageDefinition) -> Faults:
    for index, archive in enumerate(definition.archives):
        if message := _source_fault(definition.folder, archive.key):
            yield ("base", "sources", index, "key"), message
    for index, key in enumerate(definition.base.keys if isinstance(definition.base, AlpineBase) else ()):
        if message := _source_fault(definition.folder, key):
            yield ("base", "keys", index), message
    for key, source in definition.languages.named.items():
        if message := _source_fault(definition.folder, source):
            yield ("languages", key), message
    for index, file in enumerate(definition.files):
        message = _source_fault(definition.folder, file.source) if file.source else None
        if message:
            yield ("files", index, "source"), message
    if not re.fullmatch(NAME, definition.name):
        yield (), f"'{definition.name}' cannot name an image: words of a-z and 0-9, joined by '-'"


def load_catalogue(root: Path, *, bases: Path | None = None) -> dict[str, ImageDefinition]:
    """Read every definition below a directory: name → definition, each after its base.

    `bases` is another directory, for bases that are not in this one. Raise DocumentError for the first that
    is invalid, has an unknown base, a platform that its base lacks, or a circle of bases; UsageError when
    there is no definition.
    """
    folders = sorted(path.parent for path in root.glob(f"*/{FILE}") if not path.parent.name.startswith("."))
    if not folders:
        raise UsageError(f"{root} holds no image definitions: nothing like NAME/{FILE}")
    definitions = {folder.name: load_definition(folder) for folder in folders}
    if bases is not None:
        _add_bases(definitions, bases)
    ordered: dict[str, ImageDefinition] = {}
    for definition in definitions.values():
        for each in reversed(_line_of_bases(definition, definitions)):
            ordered.setdefault(each.name, each)
    return ordered


def base_definitions(catalogue: Mapping[str, ImageDefinition], name: str) -> list[ImageDefinition]:
    """The definitions below an image: its base, the base of that, and so on."""
    bases = []
    while (parent := catalogue[name].parent) is not None:
        name = parent
        bases.append(catalogue[name])
    return bases


def _add_bases(definitions: dict[str, ImageDefinition], bases: Path) -> None:
    wanted = [each.parent for each in definitions.values()]
    while wanted:
        name = wanted.pop()
        if name is not None and name not in definitions and (bases / name / FILE).is_file():
            definitions[name] = load_definition(bases / name)
            wanted.append(definitions[name].parent)


def _base_faults(definition: ImageDefinition, keys: Container[str]) -> Faults:
    if definition.suite is None:
        for name in ONLY_PACKAGES:
            if name in keys:
                yield (name,), "only an image with a Debian or Alpine base can have this"
        return
    if definition.configure is None:
        yield ("configure",), "is required with a Debian or Alpine base"
    if not definition.packages:
        yield ("packages",), "an image with a Debian or Alpine base needs at least one package"
    if definition.distribution == "alpine":
        yield from _alpine_faults(definition)
    for index, declaration in enumerate(definition.declare):
        if declaration in _NOT_DECLARED[definition.distribution or ""]:
            yield ("declare", index), f"'{declaration}' is not for {str(definition.distribution).title()}"
    if definition.configure == "scripts" and "declare" in keys:
        yield ("declare",), "not allowed with 'configure: scripts', where maintainer scripts do this"
    for spec in definition.packages:
        if (name := package_name(spec)) in definition.without:
            yield ("without", name), "is in 'packages' too"


def _alpine_faults(definition: ImageDefinition) -> Faults:
    if definition.configure == "scripts":
        yield ("configure",), "must be 'declared' with an Alpine base"
    if definition.languages.pip:
        yield ("languages", "pip"), "is not supported with an Alpine base"
    for index, spec in enumerate(definition.packages):
        if "/" in spec:
            yield ("packages", index), f"'{spec}' names a suite, which Alpine has not"


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


def _read_definition(folder: Path, real: Path) -> Document:
    path = folder / FILE
    try:
        raw = read_start(real / FILE, size=MAX_BYTES + 1)
    except OSError as error:
        problem = Problem(0, 0, "", f"cannot read the file: {error.strerror}")
        raise DocumentError(str(path), [problem]) from None
    with quoting_no_link(path, str(path)):
        return parse_yaml(raw, file=str(path))


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
            _read_definition(line[-1].folder, line[-1].real).refuse([fault])
        line.append(definitions[name])
    return line


def _base_fault(
    line: list[ImageDefinition], name: str, definitions: Mapping[str, ImageDefinition]
) -> tuple[FieldPath, str] | None:
    where = ("base", "image")
    if name not in definitions:
        return where, f"there is no image '{name}'; there is {', '.join(definitions)}"
    names = [each.name for each in line]
    if name in names:
        return where, f"an image cannot be its own base: {' → '.join([*names, name])}"
    lacking = [platform for platform in line[-1].platforms if platform not in definitions[name].platforms]
    if lacking:
        return ("platforms",), f"its base '{name}' is not built for {', '.join(lacking)}"
    return None
