"""The sections of an image definition: bases, accounts, entries, configuration, checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sandwright.document import FieldErrors, Path
from sandwright.image.fields import (
    AccountName,
    AccountText,
    Command,
    EntryPath,
    Id,
    ImageName,
    Line,
    Mode,
    Owner,
    RegistryReference,
    RootPath,
    Signal,
    SourcePath,
    Text,
    UserSpec,
    VariableName,
)

Faults = Iterator[tuple[Path, str]]
"""Faults, each with its path from the checked value."""


class Section(BaseModel):
    """A mapping of the definition: frozen, no keys but its own.

    Its validator is built on first use, which never happens for a section inside another.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class DebianBase(Section):
    """Packages of a Debian suite, with its updates and security updates."""

    debian: Literal["bookworm", "trixie"]
    """Code name of the suite."""


class ImageBase(Section):
    """Another image of ours, to which layers are added."""

    image: ImageName
    """Its name: that of its directory."""


class RegistryBase(Section):
    """An image of a registry, to which layers are added."""

    registry: RegistryReference
    """Its reference, as `docker.io/library/alpine:3.22`. What it names is pinned by the lock."""


class ImageUser(Section):
    """A line of /etc/passwd. No account has a password."""

    name: AccountName
    uid: Id
    gid: Id
    comment: AccountText = ""
    """The fifth field (GECOS)."""
    home: RootPath = "/nonexistent"
    """Its directory; listed in `directories` when it is to be made."""
    shell: RootPath = "/usr/sbin/nologin"


class ImageGroup(Section):
    """A line of /etc/group."""

    name: AccountName
    gid: Id
    members: tuple[AccountName, ...] = ()


class Accounts(Section):
    """Users and groups. Where `declare` has `accounts` these are all there are; else they are added."""

    users: tuple[ImageUser, ...] = ()
    groups: tuple[ImageGroup, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        faults = [
            *_repeated("users", [user.name for user in self.users], "name"),
            *_repeated("users", [user.uid for user in self.users], "uid"),
            *_repeated("groups", [group.name for group in self.groups], "name"),
            *_repeated("groups", [group.gid for group in self.groups], "gid"),
        ]
        if faults:
            raise FieldErrors(faults)
        return self


class _Entry(Section):
    path: EntryPath
    user: Owner = "root"
    group: Owner = "root"


class Directory(_Entry):
    """A directory that is made, or whose mode and owner are set."""

    mode: Mode = 0o755


class ImageFile(_Entry):
    """A regular file, from a file beside the definition or from text in it."""

    source: SourcePath | None = None
    """A file below the definition's directory, by convention in `files/`."""
    content: Text | None = None
    """The text itself."""
    mode: Mode = 0o644

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.source is None) == (self.content is None):
            raise ValueError("must have either 'source' or 'content'")
        return self


class Link(Section):
    """A symbolic link."""

    path: EntryPath
    target: Annotated[Text, Field(min_length=1)]
    """As it is written into the link."""


class Config(Section):
    """What a container does by default. With another image as base, what is absent is as there."""

    user: UserSpec | None = None
    """Whom it runs as; absent: root, or as in the base."""
    environment: dict[VariableName, Text] = {}
    """Variables; added to those of the base."""
    workdir: RootPath | None = None
    """Where it starts; absent: `/`, or as in the base."""
    init: AccountName | None = None
    """An account that commands run as. A small first process, which reaps and passes signals on, becomes it
    for good where the container starts as root (`user: root`). SANDWRIGHT_USER=UID:GID in the environment
    gives the account these numbers first: those of whoever started the container."""
    entrypoint: Command | None = None
    """The program in front of every command. When given, the base's `command` is dropped."""
    command: Command | None = None
    """What is run when nothing is named."""
    labels: dict[Line, Text] = {}
    """Labels; added to those of the base."""
    stop_signal: Signal | None = None

    def over(self, base: Config) -> Config:
        """This configuration where the image has a base with configuration `base`."""
        command = self.command if self.command or self.entrypoint else base.command
        return Config.model_construct(  # both are checked; that of a stranger's image by other rules
            user=self.user or base.user,
            environment={**base.environment, **self.environment},
            workdir=self.workdir or base.workdir,
            init=self.init or base.init,
            entrypoint=self.entrypoint or base.entrypoint,
            command=command,
            labels={**base.labels, **self.labels},
            stop_signal=self.stop_signal or base.stop_signal,
        )


class SmokeCheck(Section):
    """A program that is run in the finished image, and what must come of it."""

    name: Line
    run: Command
    status: Annotated[int, Field(ge=0, le=255)] = 0
    """Exit status."""
    prints: Text | None = None
    """Text that its standard output must hold."""


class Smoke(Section):
    """How the image is proved to work, beside the checks that every image has."""

    programs: tuple[Command, ...] = ()
    """Programs that must end with status 0."""
    checks: tuple[SmokeCheck, ...] = ()


class Layers(Section):
    """How the files of packages are shared out between layers."""

    budget: Annotated[int, Field(ge=1, le=100)] = 6
    """At most so many layers of packages: the biggest alone, the rest together."""


def _repeated(kind: str, values: list[Any], key: str) -> Faults:
    for index, value in enumerate(values):
        if value in values[:index]:
            yield (kind, index, key), f"{value!r} is there twice"
