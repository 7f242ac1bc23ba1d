"""What the options of several commands name: images, definitions, registries, mirrors, policies."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sandwright.cli.parsing import suggestion
from sandwright.errors import UsageError

if TYPE_CHECKING:
    from sandwright.api import Policy
    from sandwright.image.build import Fetcher, Relock
    from sandwright.image.definition import ImageDefinition
    from sandwright.policy.facts import HostFacts
    from sandwright.registry.settings import RegistrySettings
    from sandwright.session.request import RunRequest

MAX_BYTES = 16 << 20
"""How much of a profile is read; the largest real one is a hundredth of that."""

RegistrySettingsFactory = Callable[[], "RegistrySettings"]
"""Reads the settings of registries when the first registry is needed."""


def read_file(file: str) -> bytes:
    """The bytes of a file from the command line. Raise UsageError when it can't be read, or is too large."""
    try:
        with Path(file).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{file} is larger than {MAX_BYTES >> 20} MiB")
    return data


def image_path(image: str, output: Path, *, kind: str = "file or directory") -> Path:
    """The path of a built image by its name, or the given path.

    Raise UsageError where there is neither; `kind` says what the path may be.
    """
    built = output / "images" / image
    path = built if "/" not in image and built.is_dir() else Path(image)
    if not path.exists():
        raise UsageError(f"there is no image '{image}': neither {built} nor a {kind} of that name")
    return path


def names(text: str, option: str) -> list[str]:
    """The names between the commas of an option's value, each once; none for an empty one.

    Raise UsageError where a value has no name in it: the option would be ignored.
    """
    found = [each.strip() for each in text.split(",") if each.strip()]
    if text and not found:
        raise UsageError(f"{option} {text!r} names nothing")
    return list(dict.fromkeys(found))


def catalogue_of(images: str, names: Sequence[str] = ()) -> dict[str, ImageDefinition]:
    """The definitions below a directory; empty: those that ship, `dev` only if it is in `names`.

    Raise UsageError for a name that is not there.
    """
    from sandwright.image.definition import load_catalogue  # noqa: PLC0415
    from sandwright.resources import data_path  # noqa: PLC0415

    catalogue = load_catalogue(Path(images) if images else data_path("images"))
    if not images and any(name not in catalogue for name in names):
        more = load_catalogue(data_path("images", "more"))
        catalogue |= {name: each for name, each in more.items() if name in names}
    for name in names:
        if name not in catalogue:
            raise UsageError(f"there is no image '{name}'; {suggestion(name, catalogue)}")
    return catalogue


def source_date_epoch() -> int | None:
    """SOURCE_DATE_EPOCH, as reproducible-builds.org specifies it."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return None
    if not text.isdecimal():
        raise UsageError(f"SOURCE_DATE_EPOCH is {text!r}, not a whole number of seconds")
    return int(text)


def fetcher(
    mirror: str, *, registry: RegistrySettingsFactory | None = None, relock: Relock | None = None
) -> Fetcher:
    """What downloads packages and bases: from `mirror`, or as apt does here."""
    from sandwright.image.build import Fetcher  # noqa: PLC0415
    from sandwright.image.cache import Cache, default_cache  # noqa: PLC0415
    from sandwright.image.mirrors import find_mirrors  # noqa: PLC0415

    cache = Cache(default_cache(os.environ))
    return Fetcher(cache, lambda: find_mirrors(mirror or None, os.environ), relock, registry)


def registry_settings(insecure: Sequence[str], authorities: str, logins: str) -> RegistrySettings:
    """How to speak to registries, by the options `--insecure`, `--authorities` and `--logins`."""
    from sandwright.registry.credentials import ANONYMOUS, auth_files  # noqa: PLC0415
    from sandwright.registry.reference import split_host  # noqa: PLC0415
    from sandwright.registry.settings import TOKEN_SERVERS_VARIABLE, RegistrySettings  # noqa: PLC0415

    for host in insecure:
        split_host(host)
    if logins and logins != "none" and not Path(logins).is_file():
        raise UsageError(f"{logins}: there is no such file of logins")
    who = ANONYMOUS if logins == "none" else auth_files(os.environ, explicit=Path(logins) if logins else None)
    given = os.environ.get(TOKEN_SERVERS_VARIABLE, "").replace(",", " ").split()
    servers = frozenset(split_host(host)[0] for host in given)
    trust = Path(authorities) if authorities else None
    return RegistrySettings(who, trust, frozenset(insecure), token_servers=servers)


def load_policy(request: RunRequest) -> Policy:
    """The policy of all layers, as a run takes it: operator, user, the named file, and this run."""
    from sandwright.api import Policy  # noqa: PLC0415
    from sandwright.inputs import InputTracker  # noqa: PLC0415
    from sandwright.session.prepare import load  # noqa: PLC0415

    return Policy.from_layers(load(request, InputTracker(), shown=request.shown()).layers)


def request_for(
    policy: str, settings: Sequence[str] | None = None, presets: Sequence[str] | None = None
) -> RunRequest:
    """A run under a policy's file, to ask what would be; with `presets` the file need not be there."""
    from sandwright.session.request import RunRequest  # noqa: PLC0415

    try:
        here = str(Path.cwd())
    except FileNotFoundError:
        here = str(Path(policy).parent)  # the current directory was removed, and no path needs it
    return RunRequest([], policy=policy, cwd=here, settings=list(settings or ()), presets=list(presets or ()))


def read_facts(file: str, policy: Policy) -> HostFacts | None:
    """The facts in a file, None for no file. Raise DocumentError when they are not about this policy."""
    if not file:
        return None
    from sandwright.policy.facts import HostFacts  # noqa: PLC0415

    facts = HostFacts.from_json(read_file(file), file=file)
    policy.check_facts(facts)
    return facts
