"""Sources of an image's packages: the archives and their suites."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import HostError
from sandwright.image.definition import ImageDefinition
from sandwright.image.sections import DebianBase

SUITES: Mapping[str, tuple[tuple[str, str], ...]] = {
    release: (
        ("debian", release),
        ("debian", f"{release}-updates"),
        ("debian-security", f"{release}-security"),
    )
    for release in ("bookworm", "trixie")
}
"""For each release, archive and name of every suite that its packages come from."""


@dataclass(frozen=True)
class AptSource:
    """A suite of an archive. `archive` is its name on the mirrors, or the address of another archive.

    `key` holds the key that signs it; None is Debian's keyring.
    """

    archive: str
    suite: str
    components: tuple[str, ...]
    key: Path | None = None

    def key_name(self) -> str:
        """The name for a copy of the key: that of its content. Raise HostError when it can't be read."""
        assert self.key is not None
        try:
            return f"{hashlib.sha256(self.key.read_bytes()).hexdigest()[:16]}{self.key.suffix}"
        except OSError as error:
            raise HostError(f"cannot read {self.key}: {error.strerror}") from None


def debian_sources(suite: str, components: tuple[str, ...] = ("main",)) -> tuple[AptSource, ...]:
    """A Debian suite with its updates and security updates."""
    return tuple(AptSource(archive, name, components) for archive, name in SUITES[suite])


def apt_sources(definition: ImageDefinition) -> tuple[AptSource, ...]:
    """The sources of an image with a Debian base, Debian's first."""
    assert isinstance(definition.base, DebianBase)
    return tuple(_sources_of(definition.base, definition.folder))


def _sources_of(base: DebianBase, folder: Path) -> Iterator[AptSource]:
    yield from debian_sources(base.debian, base.components)
    if base.backports:
        yield AptSource("debian", f"{base.debian}-backports", base.components)
    for each in base.sources:
        yield AptSource(each.url.rstrip("/"), each.suite, each.components, folder / each.key)
