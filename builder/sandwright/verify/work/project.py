"""The project of a probe of work, its denied and read-only paths, and the settings for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.documents import strictjson
from sandwright.policy.declaration import Declaration
from sandwright.verify.work.probe import NearestDenial

BESIDE = NearestDenial(script="echo x >kept/file")
"""The denied path instead of one that a method can't deny."""

_INSIDE = ("filesystem.readonly", "filesystem.deny-inside")
_CONFIGURATION = 'filesystem.protect=[".git/config", ".git/objects/info/alternates"]'
"""A directory that the probes are not granted."""


@dataclass(frozen=True)
class WorkProject:
    """A project at `root`: `kept` may be read, `secret` may not, nor may `outside` beside it be written.

    If the method cannot close files in a writable directory, both are in `closed` beside the project, with
    links to them in the project. `word` is in the file of each.
    """

    root: Path
    word: str
    declaration: Declaration

    @property
    def inside(self) -> bool:
        """Whether `kept` and `secret` lie in the project."""
        return all(self.declaration.of(feature).level != "cannot" for feature in _INSIDE)

    @property
    def _closed_directory(self) -> Path:
        return self.root if self.inside else self.root.with_name("closed")

    @property
    def _outside_directory(self) -> Path:
        return self.root.with_name("outside")

    def _placed_files(self) -> tuple[Path, ...]:
        return (self._closed_directory / "kept", self._closed_directory / "secret", self._outside_directory)

    def make(self) -> None:
        """Plant the project."""
        self.root.mkdir(parents=True)
        for directory in self._placed_files():
            directory.mkdir(parents=True)
            (directory / "file").write_text(f"{self.word}\n", encoding="utf-8")
        if not self.inside:
            (self.root / "kept").symlink_to("../closed/kept")
            (self.root / "secret").mkdir()  # which those that walk through a project can list
            (self.root / "secret/file").symlink_to("../../closed/secret/file")

    def settings(self, more: Sequence[str] = ()) -> list[str]:
        """The settings that the project needs, merged with `more`."""
        read = [str(self._outside_directory), *([] if self.inside else [str(self._closed_directory)])]
        lines = [
            'filesystem.write=["...", "$PROJECT"]',
            f"filesystem.read={json.dumps(['...', *read])}",
            f"filesystem.deny={json.dumps([str(self._closed_directory / 'secret')])}",
            "network.mode=none",
        ]
        if self.inside:
            lines.append(f"filesystem.readonly={json.dumps([str(self._closed_directory / 'kept')])}")
        if self.declaration.of("filesystem.protect").level != "cannot":
            lines.append('filesystem.protect=[".git/hooks", ".envrc"]')
            granted = any(each.startswith("filesystem.git=") and '"config"' in each for each in more)
            lines += [] if granted else [_CONFIGURATION]
        return merge_settings([*lines, *more])

    def beyond(self, nearest: NearestDenial) -> str:
        """The feature that a probe's denial needs and that the method can't enforce; empty for none."""
        feature = nearest.feature
        return feature if feature and self.declaration.of(feature).level == "cannot" else ""

    def changed(self) -> str:
        """The changed closed paths; empty for none."""
        for directory in self._placed_files():
            try:
                names = [each.name for each in directory.iterdir()]
                content = (directory / "file").read_text(encoding="utf-8", errors="replace")
            except OSError as error:
                return f"{directory.name}: {error.strerror}"
            if names != ["file"] or content != f"{self.word}\n":
                return f"{directory.name} was changed"
        return ""


def merge_settings(settings: Sequence[str]) -> list[str]:
    """Merge settings of the same fields: lists are joined; of other values, the last counts."""
    found: dict[str, str] = {}
    for setting in settings:
        field, _, value = setting.partition("=")
        if value.startswith("[") and field in found:
            items = dict.fromkeys([*strictjson.loads(found[field]), *strictjson.loads(value)])
            value = json.dumps(list(items))
        found[field] = value
    return [f"{field}={value}" for field, value in found.items()]
