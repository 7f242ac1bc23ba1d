"""Resolves an image's packages with the real apt, in a private root.

apt decides which versions belong together and which signatures count. It gets separate state, cache,
configuration and dpkg status, and neither sees nor touches those of this machine; only the settings for
the network (`Acquire::http` and the like, logins) are copied.
"""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import os
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event

from sandwright import process
from sandwright.digests import sha256
from sandwright.errors import FetchError, HostError, IntegrityError, LockError
from sandwright.image import logins
from sandwright.image.aptsources import AptSource, apt_sources, debian_sources
from sandwright.image.definition import ImageDefinition, package_name
from sandwright.image.lock import Lock, LockedPackage, checksum
from sandwright.image.lockfile import ARCHITECTURES, naming_errors
from sandwright.image.mirrors import Mirrors, redact_address
from sandwright.locking import exclusive
from sandwright.progress import SILENT, Progress
from sandwright.registry.parallel import run_parallel
from sandwright.rootfs.controlfields import control_paragraphs

UPDATE_TIMEOUT = 600.0
"""Seconds for fetching the indices of a suite: about 10 MB for each architecture."""
WAITING = 2 * UPDATE_TIMEOUT
"""Seconds in which another process asks the same apt."""

RESOLVE_TIMEOUT = 120.0
HINT = "locks are made by apt; elsewhere than on Debian and its kin, use the locks that are there"
KEYRINGS = ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp")
_KEEP_PARSED = "-opkgCacheFile::Generate=false"
"""Lets an update keep the parsed indices, which it would write again."""
_NETWORK = re.compile(
    r"Acquire::(?:https?::.*|Retries|ForceIPv[46]|Check-Valid-Until|Check-Date|Queue-Mode|By-Hash)"
    r' "[^"]*";'
)
_ADDRESS = re.compile(r"^'([^']+)' (\S+) [0-9]+ ", re.MULTILINE)
"""A line of `--print-uris`: address, file name, size; its checksum is the weakest that the index has."""
_ESSENTIAL = "?and(?essential,?not(?name(^apt$)))"
"""The packages that maintainer scripts may use without a dependency (Debian Policy 3.8). Apt adds itself,
dpkg does not."""


def lock_image(
    definition: ImageDefinition,
    *,
    mirrors: Mirrors,
    cache: Path,
    previous: Lock | None = None,
    keyring: Path | None = None,
    fresh: set[Path] | None = None,
    progress: Progress = SILENT,
) -> Lock:
    """Resolve the packages of an image with a Debian base, for its platforms at the same time.

    `cache` is a directory in which the archives' indices are kept for the next time. Those in a directory of
    `fresh` are not fetched again; directories are added to it. When the packages are
    those of `previous`, its epoch is kept, so that the image stays the same to the bit. `keyring` holds the
    keys whose signatures count; absent, it is this machine's keyring of Debian. Raise LockError when the
    packages can't be resolved, FetchError when an archive can't be reached, IntegrityError when it is not
    signed as it should be, ToolMissing without apt.
    """
    suite = definition.suite
    if suite is None:
        raise LockError(
            f"image '{definition.name}' has no lock: its packages are those of '{definition.parent}'"
        )
    process.which("apt-get", hint=HINT)
    keyring = keyring or _keyring()
    sources = apt_sources(definition)
    fresh, stop = set() if fresh is None else fresh, Event()

    def resolve(platform: str) -> tuple[tuple[LockedPackage, ...], int]:
        root = cache / "apt" / f"{suite}-{ARCHITECTURES[platform]}{_directory_suffix(suite, sources)}"
        apt = PrivateApt(root, suite, ARCHITECTURES[platform], mirrors, keyring, sources, stop)
        with apt.opened(), naming_errors(f"image '{definition.name}', {platform}"):
            if root not in fresh:
                with progress.step(f"{definition.name} {platform}: indices"):
                    apt.update()
                fresh.add(root)
            return apt.resolve_image(definition), apt.newest_release()

    tasks = [partial(resolve, platform) for platform in definition.platforms]
    resolved = run_parallel(tasks, stop=stop.set, name="apt")
    platforms: dict[str, tuple[LockedPackage, ...]] = {
        platform: packages for platform, (packages, _) in zip(definition.platforms, resolved, strict=True)
    }
    epoch = max(newest for _, newest in resolved)
    if previous is not None and dict(previous.platforms) == platforms:
        epoch = previous.epoch
    return Lock(checksum(definition), suite, epoch, platforms)


@dataclass(frozen=True)
class PrivateApt:
    """Apt for one suite and architecture, in the directory `root`, which is made and kept.

    `keyring` is for sources without a key. Once `stop` is set, running apt programs are killed.
    """

    root: Path
    suite: str
    architecture: str
    mirrors: Mirrors
    keyring: Path
    sources: tuple[AptSource, ...]
    stop: Event = field(default_factory=Event)

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Set the directory up, and keep other processes out of it for the length of a `with`.

        Raise HostError when that can't be done.
        """
        if re.search(r'["\\\s\[\]]', f"{self.root}{self.keyring}"):
            raise HostError(f"apt cannot work with such a path: {self.root}, {self.keyring}")
        with contextlib.ExitStack() as stack:
            try:
                for name in ("lists/partial", "cache/archives/partial", *_CONFIGURATION_DIRECTORIES):
                    (self.root / name).mkdir(parents=True, exist_ok=True)
                if not stack.enter_context(exclusive(self.root, within=WAITING)):
                    raise HostError(f"{self.root} is locked by another process, and stays so")
                _write_if_changed(self.root / "status", "")
                self._copy_keys()
                _write_if_changed(self.root / "etc/sources.list", self._sources())
                (self.root / "apt.conf").write_text(self._apt_settings())
            except OSError as error:
                raise HostError(f"cannot set up apt in {self.root}: {error.strerror}") from error
            yield

    def update(self) -> None:
        """Fetch the indices that changed. All must come, and be signed by a key of the keyring."""
        words = ("apt-get", "update", "-q", "--error-on=any", _KEEP_PARSED)
        result = self._run_apt(*words, timeout=UPDATE_TIMEOUT)
        if result:
            self._drop_outdated()
            return
        complaints = _complaints(result)
        if re.search(r"sign|NO_PUBKEY|Hash Sum mismatch|expired|not valid", complaints):
            raise IntegrityError(f"an archive does not match its signature:\n{complaints}")
        raise FetchError(f"cannot fetch the indices of an archive:\n{complaints}")

    def _drop_outdated(self) -> None:
        """Remove parsed indices of other release files: apt itself compares only sizes and times."""
        releases = sorted((self.root / "lists").glob("*Release"))
        found = "".join(f"{sha256(path.read_bytes())} {path.name}\n" for path in releases)
        parsed = self.root / "parsed"
        if not parsed.exists() or parsed.read_text() != found:
            for path in (self.root / "cache").glob("*.bin"):
                path.unlink()
            parsed.write_text(found)

    def resolve_image(self, definition: ImageDefinition) -> tuple[LockedPackage, ...]:
        """Resolve the packages of an image with `resolve`."""
        scripts = definition.configure == "scripts"
        return self.resolve(definition.packages, without=tuple(definition.without), essential=scripts)

    def resolve(
        self, packages: Sequence[str], *, without: Sequence[str] = (), essential: bool = False
    ) -> tuple[LockedPackage, ...]:
        """The packages that apt installs into an empty system for these to work, sorted by name.

        Those in `without` are taken to be there; with `essential`, Debian's essential ones are wanted too.
        Raise LockError when that can't be.
        """
        self._pretend_installed(without)
        requested = [*packages, *([_ESSENTIAL] if essential else [])]
        result = self._run_apt("apt-get", "install", "--yes", "--print-uris", "-q", *requested)
        if not result:
            raise LockError(f"apt cannot resolve the packages:\n{_complaints(result)}")
        found = self._locked_packages(re.findall(_ADDRESS, result.stdout.decode()))
        absent = sorted({*map(package_name, packages)} - {package.name for package in found})
        if absent:
            raise LockError(f"{self.suite} has no package {', '.join(absent)}")
        return found

    def newest_release(self) -> int:
        """The newest date of the signed release files, in seconds since 1970."""
        dates: list[float] = []
        for path in (self.root / "lists").glob("*Release"):
            line = re.search(rb"^Date: (.+)$", path.read_bytes(), re.MULTILINE)
            if line:
                dates.append(email.utils.parsedate_to_datetime(line[1].decode()).timestamp())
        if not dates:
            raise LockError(f"the release files of {self.suite} have no date")
        return int(max(dates))

    def _pretend_installed(self, names: Sequence[str]) -> None:
        """Write a dpkg status in which these are there, in the version that the archive has, and stay so."""
        records = {record["Package"]: record for record in self._index_paragraphs(sorted(names))}
        unknown = sorted({*names} - records.keys())
        if unknown:
            raise LockError(f"{self.suite} has no package {', '.join(unknown)}, which 'without' names")
        entries = [
            "".join(f"{key}: {record[key]}\n" for key in _PRETENDED if key in record)
            + "Status: hold ok installed\nMaintainer: nobody\nDescription: taken to be there\n"
            for _, record in sorted(records.items())
        ]
        _write_if_changed(self.root / "status", "\n".join(entries))

    def _locked_packages(self, files: Iterable[tuple[str, str]]) -> tuple[LockedPackage, ...]:
        """The packages that apt gave by address and file name, with the data of the signed indices."""
        found = {address: urllib.parse.unquote(name).split("_") for address, name in files}
        versions = [f"{name}={version}" for name, version, _ in found.values()]
        records = {record["Filename"]: record for record in self._index_paragraphs(versions)}
        packages = []
        for address in found:
            archive, path = self._archive_path(address)
            if path not in records:
                raise LockError(f"apt wants {redact_address(address)}, of which the indices say nothing")
            packages.append(_locked_package(records[path], archive))
        return tuple(sorted(packages))

    def _archive_path(self, address: str) -> tuple[str, str]:
        """Archive, and path in it, of an address."""
        for archive in dict.fromkeys(source.archive for source in self.sources):
            base = _plain_address(self.mirrors.bases(archive)[0])
            if _plain_address(address).startswith(f"{base}/"):
                return archive, _plain_address(address).removeprefix(f"{base}/")
        raise LockError(f"apt wants {redact_address(address)}, which is on none of the mirrors")

    def _index_paragraphs(self, names: Sequence[str]) -> Iterator[Mapping[str, str]]:
        """The index' paragraphs on these packages, `name` or `name=version`, as far as there are any."""
        if not names:
            return
        result = self._run_apt("apt-cache", "show", "--no-all-versions", *names)
        yield from control_paragraphs(result.stdout.decode())

    def _run_apt(self, *words: str, timeout: float = RESOLVE_TIMEOUT) -> process.Result:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("L")}
        environment |= {"APT_CONFIG": str(self.root / "apt.conf"), "LC_ALL": "C.UTF-8"}
        environment["PATH"] = process.search_path()
        return process.run(*words, env=environment, timeout=timeout, check=False, stop=self.stop.is_set)

    def _sources(self) -> str:
        return "".join(
            f"deb [arch={self.architecture} signed-by={self._key_path(source)}] "
            f"{self.mirrors.bases(source.archive)[0]} {source.suite} {' '.join(source.components)}\n"
            for source in self.sources
        )

    def _key_path(self, source: AptSource) -> Path:
        return self.keyring if source.key is None else self.root / "keys" / source.key_name()

    def _copy_keys(self) -> None:
        """Copy keys to where apt's own user can read them."""
        for source in self.sources:
            if source.key is not None:
                self._key_path(source).parent.mkdir(exist_ok=True)
                self._key_path(source).write_bytes(source.key.read_bytes())

    def _apt_settings(self) -> str:
        dump = process.run("apt-config", "dump", "--no-empty", timeout=RESOLVE_TIMEOUT).text
        network = [line for line in dump.splitlines() if _NETWORK.fullmatch(line)]
        file, folder = logins.places()
        settings = _SETTINGS.format(root=self.root, architecture=self.architecture, file=file, folder=folder)
        return "\n".join([*network, settings])


_CONFIGURATION_DIRECTORIES = tuple(
    f"etc/{name}"
    for name in ("apt.conf.d", "auth.conf.d", "preferences.d", "sources.list.d", "trusted.gpg.d")
)
_PRETENDED = ("Package", "Version", "Architecture", "Multi-Arch", "Provides")
_SETTINGS = """\
Dir "{root}";
Dir::State "{root}";
Dir::State::lists "lists";
Dir::State::status "{root}/status";
Dir::Cache "{root}/cache";
Dir::Etc "{root}/etc";
Dir::Etc::netrc "{file}";
Dir::Etc::netrcparts "{folder}";
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Install-Recommends "false";
APT::Install-Suggests "false";
Acquire::Languages "none";
"""


def _write_if_changed(path: Path, text: str) -> None:
    """Write a file unless it holds the text: apt parses all indices again when its sources are newer."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _directory_suffix(suite: str, sources: tuple[AptSource, ...]) -> str:
    """Sets the directory of an image with other sources apart: apt drops indices that it no longer needs."""
    if sources == debian_sources(suite):
        return ""
    return f"-{hashlib.sha256(repr(sources).encode()).hexdigest()[:8]}"


def _keyring() -> Path:
    for name in KEYRINGS:
        path = Path("/usr/share/keyrings", name)
        if path.exists():
            return path
    raise HostError(
        "this machine lacks the keys of Debian's archives; the package debian-archive-keyring has them"
    )


def _plain_address(address: str) -> str:
    """An address as both we and apt write it: no escapes, no password, one way to write a local file's."""
    plain = redact_address(urllib.parse.unquote(address))
    return re.sub(r"^file:/*", "file:/", plain)


def _complaints(result: process.Result) -> str:
    """The errors and warnings of apt, or all it wrote when there is none, and which packages can't be had."""
    lines = [line for line in result.stderr.splitlines() if line.startswith(("E:", "W:", " ", "Err:"))]
    unmet = re.findall(r"^ \S+ : .*\n(?:  .*\n)*", result.stdout.decode(errors="replace"), re.MULTILINE)
    return redact_address(
        "\n".join([*(text.rstrip() for text in unmet), *(lines or result.stderr.splitlines())])
    )


def _locked_package(record: Mapping[str, str], archive: str) -> LockedPackage:
    source = re.fullmatch(r"(\S+)(?: \((\S+)\))?", record.get("Source", record["Package"]))
    assert source is not None
    return LockedPackage(
        name=record["Package"],
        version=record["Version"],
        architecture=record["Architecture"],
        size=int(record["Size"]),
        sha256=record["SHA256"],
        archive=archive,
        path=record["Filename"],
        source=source[1],
        source_version=source[2] or record["Version"],
        installed=int(record.get("Installed-Size", "0")),
    )
