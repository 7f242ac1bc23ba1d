"""The layers of a policy, merged and checked: nothing loosens the managed policy, `floor` in names here.

The order is that of `_ORDER`. `policy.layers` merges field by field, `policy.floor` compares with the managed
policy.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from sandwright.errors import RetiredNameWarning
from sandwright.policy import load, spelling, values
from sandwright.policy.facts import HostFacts
from sandwright.policy.floor import check_values
from sandwright.policy.layers import MergedSettings, base_presets, merged, seccomp_file, spelled_paths
from sandwright.policy.load import Layer
from sandwright.policy.provenance import Faults, PolicySource
from sandwright.policy.resolve import resolve
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.secretnames import secret_values

MAX_PERSISTENT = 200
"""Directories below `$STATE` and `$CACHE`, those above listed ones included."""

_ORDER = ("floor", "user", "project", "run")


@dataclass(frozen=True)
class MergedPolicy:
    """The settings of a sandbox, before they are resolved on a host.

    `layers` are those given, `settings` their merge with the presets and the built-in settings, `floor`
    the settings of the operator's floor alone, None without one.
    """

    layers: tuple[Layer, ...]
    settings: MergedSettings = field(repr=False)
    floor: MergedSettings | None = field(repr=False)

    @classmethod
    def load(
        cls,
        path: Path | str | None = None,
        *,
        floor: Path | str | None = None,
        user: Path | str | None = None,
        run: Layer | None = None,
        methods: Iterable[str] = (),
    ) -> Self:
        """Read a policy: the project's file, and the layers below and above it, as far as there are any.

        `run` comes from `load.run_layer`. `methods` are registered ones beside ours. Raise UsageError for a
        file that can't be read, DocumentError for faults in one, or between several.
        """
        registered = tuple(methods)
        files: list[tuple[Path | str | None, load.LayerKind]] = [
            (floor, "floor"),
            (user, "user"),
            (path, "project"),
        ]
        layers = [
            load.read_layer(file, kind=kind, methods=registered) for file, kind in files if file is not None
        ]
        return cls.from_layers([*layers, *([run] if run else [])])

    @classmethod
    def from_text(cls, text: str | bytes, *, file: str = "sandbox.yaml") -> Self:
        """Read a policy of one layer. `file` is its name for messages."""
        return cls.from_layers([load.layer(text, file=file)])

    @classmethod
    def from_layers(cls, layers: Sequence[Layer]) -> Self:
        """Merge layers in the order of their ranks, regardless of the order of the argument.

        Warn once in a process of names of the last release (`RetiredNameWarning`). Raise DocumentError for
        contradictions between layers, and for attempts to loosen the floor.
        """
        ordered = tuple(sorted(layers, key=lambda layer: _ORDER.index(layer.kind)))
        _warn_of_retired(ordered)
        floor_layers = [layer for layer in ordered if layer.kind == "floor"]
        below = [each for layer in floor_layers for each in _floor_presets(layer)]
        settings = _stacked(ordered)
        limits = merged([*below, *floor_layers]) if floor_layers else None
        faults = Faults()
        if limits is not None:
            check_values(limits, settings, faults)
        _check_together(settings, faults)
        faults.raise_any()
        return cls(ordered, settings, limits)

    @classmethod
    def unchecked(cls, layers: Sequence[Layer]) -> Self:
        """The merged layers without checks, for comparisons: no layer is refused or limited."""
        ordered = tuple(sorted(layers, key=lambda layer: _ORDER.index(layer.kind)))
        return cls(ordered, _stacked(ordered), None)

    def resolve(self, facts: HostFacts) -> ResolvedPolicy:
        """Resolve the policy on the host of `facts`. Raise like `sandwright.policy.resolve.resolve`."""
        files = [layer.file for layer in self.layers if layer.file is not None]
        return resolve(self.settings, facts, floor=self.floor, files=files)

    def project_file(self) -> str | None:
        """The project's own file, None for a policy without one."""
        files = [layer.file for layer in self.layers if layer.kind == "project" and layer.file is not None]
        return files[-1] if files else None

    def environment_names(self) -> frozenset[str]:
        """The variables of the environment that paths of the policy use."""
        return frozenset(
            name for text, _ in self.spelled_paths() for name in spelling.environment_names(text)
        )

    def spelled_paths(self) -> tuple[tuple[str, PolicySource], ...]:
        """Every path that the policy names, as it is spelled."""
        return spelled_paths(self.settings)

    def named_paths(self, facts: HostFacts) -> Iterator[tuple[str, PolicySource]]:
        """The spelled paths with the values of variables on a host; links are not resolved."""
        for text, source in self.spelled_paths():
            try:
                path = spelling.expand_path(text, facts.variables)
            except ValueError:
                continue  # resolving the policy says so, with its place
            if path == spelling.plain_spelling(path):
                yield path, source

    def check_facts(self, facts: HostFacts) -> None:
        """Raise DocumentError for each path that the policy names and facts were recorded without.

        Paths that the facts do not contain count as missing, so a grant or a restriction would not be listed.
        """
        faults = Faults(secrets=secret_values(facts.environment))
        for path, source in self.named_paths(facts):
            if not facts.is_known(path):
                faults.add(source, f"the facts lack {path}: record them again")
        faults.raise_any()

    def retired(self) -> tuple[str, ...]:
        """A warning for each name of the last release that a layer has."""
        return tuple(each.render(layer.document.file) for layer in self.layers for each in layer.retired)

    def seccomp_file(self) -> str:
        """The file that `process.seccomp` names, as it is spelled; empty when it names a shipped profile."""
        return seccomp_file(self.settings)


def _stacked(ordered: Sequence[Layer]) -> MergedSettings:
    """Merge layers, in their order, with the presets and the built-in settings."""
    floor_layers = [layer for layer in ordered if layer.kind == "floor"]
    others = [layer for layer in ordered if layer.kind != "floor"]
    below = [each for layer in floor_layers for each in _floor_presets(layer)]
    return merged([load.built_in(), *load.presets(base_presets(others)), *below, *ordered])


_WARNED: dict[str | tuple[str, type[Warning], int], int] = {}


def _warn_of_retired(layers: Iterable[Layer]) -> None:
    for layer in layers:
        file = layer.document.file
        for each in layer.retired:
            warnings.warn_explicit(each.render(file), RetiredNameWarning, file, each.line, registry=_WARNED)


def _floor_presets(layer: Layer) -> tuple[Layer, ...]:
    """The presets that a floor extends, as parts of the floor."""
    return tuple(replace(each, kind="floor", preset="") for each in load.presets(layer.policy.extends or ()))


def _check_persistent(settings: MergedSettings, faults: Faults) -> None:
    """Add a fault where a policy has more directories below `$STATE` and `$CACHE` than may be made.

    They are made on the host before a sandbox starts, and those below `$CACHE` without approval.
    """
    found: set[str] = set()
    for item in (*settings.items("filesystem.write"), *settings.items("filesystem.readonly")):
        if item.value.startswith(("$STATE/", "${STATE}/", "$CACHE/", "${CACHE}/")):
            parts = item.value.split("/")
            found |= {"/".join(parts[: count + 1]) for count in range(1, len(parts))}
        if len(found) > MAX_PERSISTENT:
            message = f"a policy can have {MAX_PERSISTENT} directories below $STATE and $CACHE at most"
            faults.add(item.source, message)
            return


def _check_together(settings: MergedSettings, faults: Faults) -> None:
    """Check the settings of all layers together, for faults that no layer alone shows."""
    _check_persistent(settings, faults)
    mode, allow = settings.values["network.mode"], settings.items("network.allow")
    if mode.value == "host" and allow and allow[-1].source.rank >= mode.source.rank:
        message = f"nothing is filtered with mode: host ({mode.source}); use mode: proxy"
        faults.add(settings.given["network.allow"], message)
    http = settings.items("network.http")
    if mode.value == "host" and http and http[-1].source.rank >= mode.source.rank:
        message = f"nothing is filtered with mode: host ({mode.source}); use mode: proxy"
        faults.add(settings.given["network.http"], message)
    secrets = {
        name: (program, item.source)
        for program, item in settings.entries.get("credentials.shims", {}).items()
        if item.value is not None
        for pair in item.value.secrets.items()
        for name in (pair[0], values.secret_reference(pair[1]))
    }
    for item in settings.items("environment.pass"):
        if item.value in secrets:
            program, where = secrets[item.value]
            message = (
                f"{item.value} is a secret of the shim {program} ({where}), which the sandbox never sees"
            )
            faults.add(item.source, message)
