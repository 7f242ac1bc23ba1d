"""Merges the layers of a policy field by field; later ones win: presets, managed policy, user, project, run.

`FIELDS` gives each field one of four ways of merging:

| way          | absent          | empty                | filled                                             |
|--------------|-----------------|----------------------|----------------------------------------------------|
| value        | as below        | –                    | this value                                         |
| grants       | as below        | nothing is granted   | these alone; `...` stands for the layer below      |
| restrictions | as below        | as below             | these too                                          |
| entries      | as below        | as below             | these too; the same key anew; null takes one away  |

`method` and `methods` are one field: whichever a later layer names displaces both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sandwright.documents.document import Path
from sandwright.policy.load import Layer
from sandwright.policy.names import CACHES
from sandwright.policy.provenance import PolicySource, Sourced
from sandwright.policy.values import INHERITED

Way = Literal["value", "grants", "restrictions", "entries"]

FIELDS: Mapping[str, Way] = {
    "method": "value",
    "methods": "value",
    "reason": "value",
    "workspace": "value",
    "filesystem.read": "grants",
    "filesystem.write": "grants",
    "filesystem.readonly": "restrictions",
    "filesystem.deny": "restrictions",
    "filesystem.protect": "restrictions",
    "filesystem.unprotect": "restrictions",
    "filesystem.git": "grants",
    "filesystem.placeholders": "value",
    "filesystem.home": "value",
    "filesystem.tmp": "value",
    "cache": "grants",
    "network.mode": "value",
    "network.allow": "grants",
    "network.http": "grants",
    "network.unix_sockets": "grants",
    "network.own_sockets": "value",
    "network.localhost": "grants",
    "network.expose": "grants",
    "network.ca": "value",
    "process.sandbox_root": "value",
    "process.seccomp": "value",
    "macos": "grants",
    "mcp.tools": "grants",
    "environment.pass": "grants",
    "environment.set": "entries",
    "credentials.cloud": "value",
    "credentials.http": "grants",
    "credentials.shims": "entries",
    "credentials.signing": "grants",
    "user.mapping": "value",
    "resources.memory": "value",
    "resources.cpus": "value",
    "resources.pids": "value",
    "resources.files": "value",
    "resources.time": "value",
    "image": "value",
    "gvisor.engine": "value",
    "accept_gaps": "grants",
}
"""Every field of a policy but `schema` and `extends`, and how layers come together in it."""

_PATHS = (
    "filesystem.read",
    "filesystem.write",
    "filesystem.readonly",
    "filesystem.deny",
    "network.unix_sockets",
)

_CHOICE = ("method", "methods", "reason")


@dataclass(frozen=True)
class MergedSettings:
    """The merged settings of layers, each value with its source.

    `values` has the fields with one value, `lists` the grants and restrictions, `entries` the mappings, where
    None stands for a key taken away. A field that no layer names is in none of them. `given` holds the last
    place of each list of grants.
    """

    values: Mapping[str, Sourced[Any]] = field(default_factory=dict)
    lists: Mapping[str, tuple[Sourced[Any], ...]] = field(default_factory=dict)
    entries: Mapping[str, Mapping[str, Sourced[Any]]] = field(default_factory=dict)
    given: Mapping[str, PolicySource] = field(default_factory=dict)

    def value(self, name: str) -> Any:  # noqa: ANN401 - of the field's type
        """The value of a field, None when no layer gives one."""
        found = self.values.get(name)
        return found and found.value

    def items(self, name: str) -> tuple[Sourced[Any], ...]:
        """The items of a list; none if no layer sets it."""
        return self.lists.get(name, ())


def merged(layers: Iterable[Layer]) -> MergedSettings:
    """Layers merged into settings, the first lowest: each field in the way that `FIELDS` names."""
    into = _Merging()
    for layer in layers:
        for name, way in FIELDS.items():
            value = _field_value(layer, name)
            if value is not None:
                into.take(layer, name, way, value)
    into.open_caches()
    return MergedSettings(into.values, into.lists, into.entries, into.given)


def spelled_paths(settings: MergedSettings) -> tuple[tuple[str, PolicySource], ...]:
    """Every path that the settings name, as it is spelled."""
    found = [(item.value, item.source) for name in _PATHS for item in settings.items(name)]
    found += [(item.value.path, item.source) for item in settings.items("filesystem.unprotect")]
    seccomp = settings.values.get("process.seccomp")
    if seccomp and seccomp_file(settings):
        found.append((seccomp.value, seccomp.source))
    return tuple(found)


def seccomp_file(settings: MergedSettings) -> str:
    """The file that `process.seccomp` names, as it is spelled; empty when it names a shipped profile."""
    name: str = settings.value("process.seccomp") or ""
    return name if name.startswith(("/", "~", "$")) else ""


def base_presets(layers: Sequence[Layer]) -> tuple[str, ...]:
    """The presets that layers start from: those of the last one that has `extends`, else `default`."""
    extended = [layer.policy.extends for layer in layers if layer.policy.extends is not None]
    return extended[-1] if extended else ("default",)


class _Merging:
    """Settings that are being made."""

    def __init__(self) -> None:
        self.values: dict[str, Sourced[Any]] = {}
        self.lists: dict[str, tuple[Sourced[Any], ...]] = {}
        self.entries: dict[str, dict[str, Sourced[Any]]] = {}
        self.given: dict[str, PolicySource] = {}

    def take(self, layer: Layer, name: str, way: Way, settings: Any) -> None:  # noqa: ANN401 - as the model
        path: Path = tuple(name.split("."))
        match way:
            case "value":
                self._merge_value(name, Sourced(settings, layer.source(path)))
            case "grants":
                self.lists[name] = tuple(self._merge_grants(layer, name, path, settings))
                self.given[name] = layer.source(path)
            case "restrictions":
                self.lists[name] = self.lists.get(name, ()) + _sourced_items(layer, name, path, settings)
            case "entries":
                entries = self.entries.setdefault(name, {})
                for key, value in settings.items():
                    entries[key] = Sourced(value, layer.source((*path, key)))

    def open_caches(self) -> None:
        """Expand each cache: a directory to write, and variables, which higher layers may set."""
        for item in self.lists.get("cache", ()):
            directory = Sourced(f"$CACHE/{item.value}", item.source)
            self.lists["filesystem.write"] = (*self.lists.get("filesystem.write", ()), directory)
            entries = self.entries.setdefault("environment.set", {})
            for name, value in CACHES[item.value].items():
                if name not in entries or entries[name].source.rank < item.source.rank:
                    entries[name] = Sourced(value, item.source)

    def _merge_value(self, name: str, value: Sourced[Any]) -> None:
        if name in ("method", "methods"):
            for other in _CHOICE:
                self.values.pop(other, None)
        self.values[name] = value

    def _merge_grants(
        self, layer: Layer, name: str, path: Path, items: Sequence[Any]
    ) -> Iterator[Sourced[Any]]:
        for item in _sourced_items(layer, name, path, items):
            if item.value == INHERITED:
                yield from self.lists.get(name, ())
            else:
                yield item


def _sourced_items(layer: Layer, name: str, path: Path, items: Sequence[Any]) -> tuple[Sourced[Any], ...]:
    """The items of a layer's list. A layer is merged several times for a run, with others each time."""
    found = layer.items.get(name)
    if found is None:
        found = tuple(Sourced(value, layer.source((*path, index))) for index, value in enumerate(items))
        layer.items[name] = found
    return found


def _field_value(layer: Layer, name: str) -> Any:  # noqa: ANN401 - of the field's type
    """The value of a field in a layer; None without one."""
    section, _, key = name.rpartition(".")
    part = getattr(layer.policy, section) if section else layer.policy
    return None if part is None else getattr(part, "pass_" if key == "pass" else key)
