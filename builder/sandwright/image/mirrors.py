"""Sources of packages: base addresses of the archives `debian`, `debian-security` and `alpine`.

No host name is built in. Addresses come from an option, from SANDWRIGHT_MIRROR, or from the configuration of
this host's apt and apk, in this order.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandwright import process
from sandwright.environment import MIRROR
from sandwright.errors import HostError, UsageError
from sandwright.image.lock import ARCHIVES
from sandwright.image.logins import AptLogin, machine_logins
from sandwright.rootfs.controlfields import control_paragraphs

VARIABLE = MIRROR.name
HINT = (
    f"name a mirror with --mirror or {VARIABLE}: "
    "one address, or debian=ADDRESS,debian-security=ADDRESS,alpine=ADDRESS"
)
APK_REPOSITORIES = Path("/etc/apk/repositories")
SCHEMES = ("http", "https", "file")

_APK_REPOSITORY = re.compile(r"(?:@\S+\s+)?(\S+?)/+(?:v[0-9.]+|edge)/[a-z]+/*")
"""A line of apk's repositories: the address of the archive, release and repository (apk-repositories(5))."""
_MAIN = re.compile(r"^'(\S+?)/*/dists/(\S+?)/main/binary-[^/]+/Packages", re.MULTILINE)
"""An index of the component `main`, as `apt-get update --print-uris` lists it: address, suite."""


@dataclass(frozen=True)
class Mirrors:
    """Base addresses for each archive, the preferred first, without a slash at the end.

    `proxies` are apt's, by scheme; those of the environment take precedence. `logins` are apt's, for
    addresses without credentials.
    """

    archives: Mapping[str, tuple[str, ...]]
    proxies: Mapping[str, str] = field(default_factory=dict)
    logins: tuple[AptLogin, ...] = ()

    def bases(self, archive: str) -> tuple[str, ...]:
        """The addresses of one archive; of an address, itself. Raise HostError when there is none."""
        if "://" in archive:
            return (archive,)
        found = self.archives.get(archive, ())
        if not found:
            raise HostError(f"no mirror of the archive '{archive}' is known; {HINT}")
        return found


def find_mirrors(option: str | None, environment: Mapping[str, str]) -> Mirrors:
    """The mirrors to use: those of `option`, else of SANDWRIGHT_MIRROR in `environment`, else of apt and apk.

    Those of apt are used beside a setting that names Alpine's alone. Raise UsageError for an invalid address,
    HostError when no mirror is known.
    """
    setting = option or environment.get(VARIABLE)
    named = replace(parse_mirrors(setting), logins=machine_logins()) if setting else None
    if named is not None and named.archives.keys() != {"alpine"}:
        return named
    alpine = named.bases("alpine") if named is not None else _apk_repositories()
    try:
        found = machine_mirrors() if process.find("apt-get") else None
    except HostError:
        if not alpine:
            raise
        found = None
    if found is not None:
        return replace(found, archives={**found.archives, "alpine": alpine}, logins=machine_logins())
    if not alpine:
        raise HostError(f"no mirror is known: this machine has no apt to ask; {HINT}")
    return Mirrors({"alpine": alpine}, logins=machine_logins())


def names_alpine(option: str | None, environment: Mapping[str, str]) -> bool:
    """Whether a setting names a mirror of Alpine in particular, or this host's apk does."""
    setting = option or environment.get(VARIABLE) or ""
    words = [word.strip() for word in setting.split(",")]
    named = any(word.startswith("alpine=") or word.rstrip("/").endswith("/alpine") for word in words)
    return named or (not setting and bool(_apk_repositories()))


def parse_mirrors(text: str) -> Mirrors:
    """Parse mirrors as a user writes them.

    One address is that of an archive when its path ends with `/debian` or `/alpine`, with the other archives
    beside it; else of a directory that holds all. Several are `archive=address`, separated by commas; an
    archive may be named several times.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    archives: dict[str, tuple[str, ...]] = {}
    for word in words:
        archive, equals, address = word.partition("=")
        if equals and archive in ARCHIVES:
            archives[archive] = (*archives.get(archive, ()), _address(address))
        elif len(words) == 1:
            archives = _all_below(_address(word))
        else:
            raise UsageError(f"'{word}' is not archive=address; archives are {', '.join(ARCHIVES)}")
    if not archives:
        raise UsageError(f"'{text}' names no mirror; {HINT}")
    return Mirrors(archives)


def machine_mirrors() -> Mirrors:
    """The mirrors and proxies of this host's apt. Raise HostError when none is Debian's."""
    archives: dict[str, tuple[str, ...]] = {}
    for archive, address in _debian_sources():
        for base in _expand_mirror_list(address):
            if base not in archives.get(archive, ()):
                archives[archive] = (*archives.get(archive, ()), base)
    if "debian" not in archives:
        raise HostError(f"this machine's apt knows no mirror of Debian; {HINT}")
    if "debian-security" not in archives:
        archives["debian-security"] = _all_below(archives["debian"][0])["debian-security"]
    settings = process.run("apt-config", "dump", "--no-empty", timeout=60).text
    return Mirrors(archives, _apt_proxies(settings))


def redact_address(address: str) -> str:
    """An address without the user and password it may hold."""
    return re.sub(r"//[^/@]*@", "//", address)


def _address(text: str) -> str:
    parts = urllib.parse.urlsplit(text)
    if parts.scheme not in SCHEMES or not (parts.netloc or parts.scheme == "file"):
        raise UsageError(
            f"'{redact_address(text)}' is not the address of a mirror; it begins with http://, https:// or file:///"
        )
    if re.search(r"[\s\"'\[\]<>\\]", text) or parts.query or parts.fragment:
        raise UsageError(f"'{redact_address(text)}' has characters that no address may have")
    return text.rstrip("/")


def _all_below(base: str) -> dict[str, tuple[str, ...]]:
    root = base.removesuffix("/debian").removesuffix("/alpine")
    return {archive: (f"{root}/{archive}",) for archive in ARCHIVES}


def _debian_sources() -> Iterator[tuple[str, str]]:
    """Archive and address of each Debian source of apt.

    Origin and label of the release file decide. Before the first `apt-get update` there is none; then the
    last part of the path decides.
    """
    addresses = process.run("apt-get", "update", "--print-uris", timeout=60).text
    labels = _labels(process.run("apt-get", "indextargets", timeout=60).text)
    for address, suite in dict.fromkeys(_MAIN.findall(addresses)):
        origin, label = labels.get(address, ("", ""))
        last = address.rpartition("/")[2]
        if origin == "Debian" or (not origin and (last in ARCHIVES or address.startswith("mirror+file:"))):
            security = "-security" in f"{last} {suite} {label.lower()}"
            yield ("debian-security" if security else "debian"), address


def _apk_repositories() -> tuple[str, ...]:
    """The mirrors of Alpine that this host's apk uses; none where it has no apk."""
    try:
        lines = APK_REPOSITORIES.read_text().splitlines()
    except OSError:
        return ()
    found = (match[1] for line in lines if (match := _APK_REPOSITORY.fullmatch(line.strip())))
    return tuple(dict.fromkeys(each for each in found if urllib.parse.urlsplit(each).scheme in SCHEMES))


def _labels(targets: str) -> dict[str, tuple[str, str]]:
    """Origin and label by address, from apt's release files."""
    found = {}
    for fields in control_paragraphs(targets):
        if fields.get("Origin"):
            found[fields.get("Repo-URI", "").rstrip("/")] = (fields["Origin"], fields.get("Label", ""))
    return found


def _expand_mirror_list(address: str) -> Iterator[str]:
    """The mirrors behind an address of apt's: the address itself, or a list in a file."""
    if address.startswith("mirror+file:"):
        try:
            lines = Path(address.removeprefix("mirror+file:")).read_text().splitlines()
        except OSError:
            lines = []
        words = [line.split()[0] for line in lines if line.split() and not line.startswith("#")]
    else:
        words = [address]
    for word in words:
        if urllib.parse.urlsplit(word).scheme in SCHEMES:
            yield word.rstrip("/")


def _apt_proxies(settings: str) -> dict[str, str]:
    found = re.findall(r'^Acquire::(https?)::Proxy "([^"]+)";$', settings, re.MULTILINE)
    return {scheme: proxy for scheme, proxy in found if proxy.upper() != "DIRECT"}
