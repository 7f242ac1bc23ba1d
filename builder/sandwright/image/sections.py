"""The sections of an image definition: bases, accounts, entries, configuration, checks."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from sandwright.documents.checks import DISTINCT, NONEMPTY_LIST, NONEMPTY_TEXT, in_range
from sandwright.documents.document import FieldErrors, Path
from sandwright.documents.model import ValueCheck
from sandwright.image.fields import (
    AccountName,
    AccountText,
    AlpineRelease,
    ArchiveUrl,
    Command,
    ComponentName,
    EntryPath,
    Id,
    ImageName,
    Line,
    Mode,
    Owner,
    Port,
    RegistryReference,
    RootPath,
    Signal,
    SourcePath,
    SuiteName,
    Text,
    UserSpec,
    VariableName,
)
from sandwright.image.variant import inheritable

Faults = Iterator[tuple[Path, str]]
"""Faults, each with its path from the checked value."""


@dataclass(frozen=True, kw_only=True)
class AptArchive:
    """Another archive of packages for apt."""

    url: ArchiveUrl
    """The address above `dists/`."""
    suite: SuiteName
    components: Annotated[tuple[ComponentName, ...], NONEMPTY_LIST, DISTINCT] = ("main",)
    key: SourcePath
    """The key that signs it: a file below the definition's directory, `.gpg` (binary) or `.asc` (text)."""


@dataclass(frozen=True, kw_only=True)
class DebianBase:
    """Packages of a Debian suite, with its updates and security updates."""

    debian: Literal["bookworm", "trixie"]
    """Code name of the suite."""
    components: Annotated[tuple[ComponentName, ...], NONEMPTY_LIST, DISTINCT] = ("main",)
    """Components of Debian, such as `contrib`."""
    backports: bool = False
    """Whether packages may come from the suite's backports, if they say so: `git/bookworm-backports`."""
    sources: tuple[AptArchive, ...] = ()
    """Other archives. Their packages take the place of Debian's if their version is higher."""


@dataclass(frozen=True, kw_only=True)
class AlpineBase:
    """Packages of an Alpine release."""

    alpine: AlpineRelease
    """The release, as `"3.22"`, or `edge`."""
    repositories: Annotated[tuple[ComponentName, ...], NONEMPTY_LIST, DISTINCT] = ("main",)
    """Its repositories, such as `community`; of equal versions, the first one's is used."""
    keys: tuple[SourcePath, ...] = ()
    """The keys that sign: files `NAME.rsa.pub` below the definition's directory; absent: Alpine's own."""


@dataclass(frozen=True, kw_only=True)
class ImageBase:
    """Another image of ours, to which layers are added."""

    image: ImageName
    """Its name: that of its directory."""


@dataclass(frozen=True, kw_only=True)
class RegistryBase:
    """An image of a registry, to which layers are added."""

    registry: RegistryReference
    """Its reference, as `docker.io/library/alpine:3.22`. The lock pins its content."""


@dataclass(frozen=True, kw_only=True)
class ImageUser:
    """A line of /etc/passwd. No account has a password."""

    name: AccountName
    uid: Id
    gid: Id
    comment: AccountText = ""
    """The fifth field (GECOS)."""
    home: RootPath = "/nonexistent"
    """Its directory; listed in `directories` when it is to be made."""
    shell: RootPath = "/usr/sbin/nologin"


@dataclass(frozen=True, kw_only=True)
class ImageGroup:
    """A line of /etc/group."""

    name: AccountName
    gid: Id
    members: tuple[AccountName, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Accounts:
    """Users and groups. Where `declare` has `accounts` these are all there are; else they are added."""

    users: tuple[ImageUser, ...] = ()
    groups: tuple[ImageGroup, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Entry:
    path: EntryPath
    user: Owner = "root"
    group: Owner = "root"


@dataclass(frozen=True, kw_only=True)
class Directory(_Entry):
    """A directory to create, or an existing one whose mode and owner are set."""

    mode: Mode = 0o755


@dataclass(frozen=True, kw_only=True)
class ImageFile(_Entry):
    """A regular file, from a file beside the definition or from text in it."""

    source: SourcePath | None = None
    """A file below the definition's directory, by convention in `files/`."""
    content: Text | None = None
    """The text itself."""
    mode: Mode = 0o644


@dataclass(frozen=True, kw_only=True)
class Link:
    """A symbolic link."""

    path: EntryPath
    target: Annotated[Text, NONEMPTY_TEXT]
    """As it is written into the link."""


@dataclass(frozen=True, kw_only=True)
class Healthcheck:
    """A check of whether a container works, run by the engine; Docker's, which Kubernetes ignores."""

    command: Command
    """A program that ends with status 0 if it does."""
    interval: Annotated[int, in_range(1, 86400)] = 30
    """Seconds between checks."""
    timeout: Annotated[int, in_range(1, 3600)] = 30
    """Seconds until a check counts as failed."""
    start_period: Annotated[int, in_range(0, 86400)] = field(default=0, metadata={"key": "start-period"})
    """Seconds in which failures do not count."""
    retries: Annotated[int, in_range(1, 100)] = 3
    """Failures in a row until the container is unhealthy."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The defaults of a container. With another image as base, absent settings stay the base's."""

    user: UserSpec | None = None
    """The user that containers run as; absent: root, or as in the base."""
    environment: dict[VariableName, Text] = field(default_factory=dict)
    """Variables; added to those of the base."""
    workdir: RootPath | None = None
    """The directory that containers start in; absent: `/`, or as in the base."""
    init: AccountName | None = None
    """An account that commands run as. A small first process, which reaps and passes signals on, becomes it
    for good where the container starts as root (`user: root`). SANDWRIGHT_USER=UID:GID in the environment
    gives the account these numbers first: those of the user who started the container."""
    entrypoint: Command | None = None
    """The program in front of every command. When given, the base's `command` is dropped."""
    command: Command | None = None
    """The default command."""
    labels: dict[Line, Text] = field(default_factory=dict)
    """Labels; added to those of the base."""
    stop_signal: Signal | None = None
    ports: Annotated[tuple[Port, ...], DISTINCT] = ()
    """Ports that a service listens on; added to those of the base."""
    volumes: Annotated[tuple[EntryPath, ...], DISTINCT] = ()
    """Directories for data of a container; added to those of the base. Engines put a volume at each."""
    healthcheck: Healthcheck | None = None

    def over(self, base: "Config") -> "Config":
        """This configuration on top of a base with the configuration `base`."""
        command = self.command if self.command or self.entrypoint else base.command
        return Config(  # both are checked; that of a stranger's image by other rules
            user=self.user or base.user,
            environment={**base.environment, **self.environment},
            workdir=self.workdir or base.workdir,
            init=self.init or base.init,
            entrypoint=self.entrypoint or base.entrypoint,
            command=command,
            labels={**inheritable(base.labels), **self.labels},
            stop_signal=self.stop_signal or base.stop_signal,
            ports=tuple(dict.fromkeys([*base.ports, *self.ports])),
            volumes=tuple(dict.fromkeys([*base.volumes, *self.volumes])),
            healthcheck=self.healthcheck or base.healthcheck,
        )


@dataclass(frozen=True, kw_only=True)
class SmokeCheck:
    """A program that is run in the finished image, and its expected result."""

    name: Line
    run: Command
    status: Annotated[int, in_range(0, 255)] = 0
    """Exit status."""
    prints: Text | None = None
    """Text that its standard output must hold."""


@dataclass(frozen=True, kw_only=True)
class Smoke:
    """The smoke checks of an image, in addition to those that every image has."""

    programs: tuple[Command, ...] = ()
    """Programs that must end with status 0."""
    checks: tuple[SmokeCheck, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Layers:
    """The distribution of packages' files over layers."""

    budget: Annotated[int, in_range(1, 100)] = 6
    """At most so many layers of packages: the biggest alone, the rest together."""


@dataclass(frozen=True, kw_only=True)
class Languages:
    """Packages of programming languages, from files with the digest of each."""

    pip: SourcePath | None = None
    """A requirements file of pip, with a hash for each requirement; wheels go below /usr/local."""
    npm: SourcePath | None = None
    """A package-lock.json; its packages go below /usr/local/lib/node_modules. No script of them is run."""

    @property
    def named(self) -> dict[str, str]:
        """The files below the definition's directory, by key."""
        return {key: file for key, file in (("pip", self.pip), ("npm", self.npm)) if file is not None}

    @property
    def files(self) -> tuple[str, ...]:
        """The files below the definition's directory."""
        return tuple(self.named.values())


def _repeated(kind: str, values: list[Any], key: str) -> Faults:
    for index, value in enumerate(values):
        if value in values[:index]:
            yield (kind, index, key), f"{value!r} is there twice"


def _consistent_accounts(accounts: Accounts) -> Accounts:
    faults = [
        *_repeated("users", [user.name for user in accounts.users], "name"),
        *_repeated("users", [user.uid for user in accounts.users], "uid"),
        *_repeated("groups", [group.name for group in accounts.groups], "name"),
        *_repeated("groups", [group.gid for group in accounts.groups], "gid"),
    ]
    if faults:
        raise FieldErrors(faults)
    return accounts


def _one_origin(file: ImageFile) -> ImageFile:
    if (file.source is None) == (file.content is None):
        raise ValueError("must have either 'source' or 'content'")
    return file


ConsistentAccounts = Annotated[Accounts, ValueCheck(_consistent_accounts)]
FileOfOneOrigin = Annotated[ImageFile, ValueCheck(_one_origin)]
