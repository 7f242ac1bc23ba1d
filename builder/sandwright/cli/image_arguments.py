"""Decoders of options that several commands have: image definitions, mirrors, registries."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sandwright.cli.parsing import suggestion
from sandwright.errors import UsageError
from sandwright.image.cache import Cache, default_cache
from sandwright.image.compress import Compression, parse_compression
from sandwright.image.definition import ImageDefinition, load_catalogue
from sandwright.image.fetcher import Fetcher, Relock
from sandwright.image.mirrors import find_mirrors, names_alpine
from sandwright.image.packagestore import named_store
from sandwright.registry.credentials import ANONYMOUS, auth_files
from sandwright.registry.reference import split_host
from sandwright.registry.settings import TOKEN_SERVERS_VARIABLE, RegistrySettings
from sandwright.resources import data_path

RegistrySettingsFactory = Callable[[], "RegistrySettings"]
"""Reads the settings of registries when the first registry is needed."""


def catalogue_of(
    images: str, names: Sequence[str] = (), *, mirror: str | None = None
) -> dict[str, ImageDefinition]:
    """The definitions below a directory, with those of shipped images that are bases there.

    Without a directory: those that ship, `dev` only if it is in `names`. Without names, and where `mirror`
    (of `--mirror`) or a setting of this machine names a mirror of Alpine: `alpine-apk`, without a registry,
    in place of `alpine`. Raise UsageError for a name that is not there.
    """
    shipped = data_path("images")
    catalogue = load_catalogue(Path(images) if images else shipped, bases=shipped)
    of_packages = not (images or names or mirror is None) and names_alpine(mirror, os.environ)
    extra = ["alpine-apk"] if of_packages else names
    if not images and any(name not in catalogue for name in extra):
        more = load_catalogue(data_path("images", "more"))
        catalogue |= {name: each for name, each in more.items() if name in extra}
    if of_packages:
        del catalogue["alpine"]
    for name in names:
        if name not in catalogue:
            raise UsageError(f"there is no image '{name}'; {suggestion(name, catalogue)}")
    return catalogue


def chosen_compression(text: str) -> Compression | None:
    """The value of `--compression`. Raise UsageError where it is none."""
    try:
        return parse_compression(text) if text else None
    except ValueError as error:
        raise UsageError(f"--compression: {error}") from None


def fetcher(
    mirror: str,
    *,
    registry: RegistrySettingsFactory | None = None,
    relock: Relock | None = None,
    packages: str = "",
) -> Fetcher:
    """The fetcher of packages and bases: from the store `packages`, from `mirror`, or as apt does here."""
    cache = Cache(default_cache(os.environ))
    store = named_store(packages, registry or RegistrySettings) if packages else None
    return Fetcher(cache, lambda: find_mirrors(mirror or None, os.environ), relock, registry, store)


def registry_settings(insecure: Sequence[str], ca_file: str, authfile: str) -> RegistrySettings:
    """The settings for registries, by the options `--insecure`, `--ca-file` and `--authfile`."""
    for host in insecure:
        split_host(host)
    if authfile and authfile != "none" and not Path(authfile).is_file():
        raise UsageError(f"{authfile}: no such credentials file")
    explicit = Path(authfile) if authfile else None
    who = ANONYMOUS if authfile == "none" else auth_files(os.environ, explicit=explicit)
    listed = os.environ.get(TOKEN_SERVERS_VARIABLE, "").replace(",", " ").split()
    servers = frozenset(split_host(host)[0] for host in listed)
    trust = Path(ca_file) if ca_file else None
    return RegistrySettings(who, trust, frozenset(insecure), token_servers=servers)
