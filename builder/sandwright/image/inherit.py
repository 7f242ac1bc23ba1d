"""Reads which settings an image inherits from a base of a registry. Pure.

Fields: image-spec 1.1, config.md, and those that Docker adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sandwright.errors import ArchiveRefused
from sandwright.image.accounts import Names
from sandwright.image.documents import split_entrypoint
from sandwright.image.sections import Config
from sandwright.image.variant import inheritable
from sandwright.rootfs.descriptor import mapping, sequence, strings

_KEPT = ("ExposedPorts", "Healthcheck", "Shell", "Volumes")
"""Fields that a definition can't set."""


@dataclass(frozen=True)
class ImageSettings:
    """The default settings of an image's containers. `more` holds fields that a definition can't set."""

    config: Config
    more: Mapping[str, Any] = field(default_factory=dict)

    def under(self, config: Config) -> ImageSettings:
        """The settings of an image with this configuration on top."""
        return ImageSettings(config.over(self.config), self.more)

    def with_user_id(self, names: Names) -> ImageSettings:
        """The settings with user and group as numbers: Kubernetes' `runAsNonRoot` refuses names.

        Raise BuildError for a name that the image does not know.
        """
        if not self.config.user:
            return self
        user, colon, group = self.config.user.partition(":")
        numbers = [user if user.isdecimal() else str(names.uid(user))]
        if colon:
            numbers.append(group if group.isdecimal() else str(names.gid(group)))
        return replace(self, config=replace(self.config, user=":".join(numbers)))


def inherited(document: Mapping[str, Any], where: str) -> ImageSettings:
    """The settings in an image config. Raise ArchiveRefused for a value of the wrong type."""
    section = mapping(document.get("config") or {}, f"{where}: config")
    environment = dict(
        _split_variable(each) for each in _word_tuple(section.get("Env"), f"{where}: Env") or ()
    )
    labels = strings(section.get("Labels"), f"{where}: Labels")
    account, entrypoint = split_entrypoint(
        _word_tuple(section.get("Entrypoint"), f"{where}: Entrypoint") or ()
    )
    config = Config(  # definitions allow fewer values
        user=_non_empty_text(section.get("User")),
        environment=environment,
        workdir=_non_empty_text(section.get("WorkingDir")),
        init=account,
        entrypoint=entrypoint or None,
        command=_word_tuple(section.get("Cmd"), f"{where}: Cmd"),
        labels=inheritable(labels),
        stop_signal=_non_empty_text(section.get("StopSignal")),
    )
    return ImageSettings(config, {key: section[key] for key in _KEPT if section.get(key)})


def _split_variable(entry: str) -> tuple[str, str]:
    name, _, value = entry.partition("=")
    return name, value


def _non_empty_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _word_tuple(value: object, where: str) -> tuple[str, ...] | None:
    words = tuple(sequence(value, where))
    if not all(isinstance(each, str) for each in words):
        raise ArchiveRefused(f"{where}: expected strings")
    return words or None
