"""The policy as its layers say it together: the way in for whoever has a `sandbox.yaml`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandwright.errors import RenderError, UsageError
from sandwright.policy import load, spelling, values
from sandwright.policy.facts import HostFacts
from sandwright.policy.floor import check_values
from sandwright.policy.layers import Settings, base, merged
from sandwright.policy.load import Layer
from sandwright.policy.paths import canonical
from sandwright.policy.resolve import resolve
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.source import Faults, Source

if TYPE_CHECKING:
    from sandwright.evaluate.explain import Comparison
    from sandwright.render.methods import Rendered

_ORDER = ("floor", "user", "project", "run")


@dataclass(frozen=True)
class Policy:
    """What a sandbox allows, before it is put on a host.

    `layers` are those given, `settings` what they say together with the presets and what is built in, `floor`
    what the operator's floor says alone, None without one.
    """

    layers: tuple[Layer, ...]
    settings: Settings = field(repr=False)
    floor: Settings | None = field(repr=False)

    @classmethod
    def load(
        cls,
        path: Path | str | None = None,
        *,
        floor: Path | str | None = None,
        user: Path | str | None = None,
        run: Layer | None = None,
        methods: Iterable[str] = (),
    ) -> Policy:
        """Read a policy: the project's file, and the layers below and above it, as far as there are any.

        `run` comes from `load.run_layer`. `methods` are registered ones beside ours. Raise UsageError for a
        file that can't be read, DocumentError for what is wrong in one, or with several together.
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
    def from_text(cls, text: str | bytes, *, file: str = "sandbox.yaml") -> Policy:
        """Read a policy of one layer. `file` is its name for messages."""
        return cls.from_layers([load.layer(text, file=file)])

    @classmethod
    def from_layers(cls, layers: Sequence[Layer]) -> Policy:
        """Bring layers together, in their order whatever that of the argument.

        Raise DocumentError for what contradicts between them, and for attempts to loosen the floor.
        """
        given = tuple(sorted(layers, key=lambda layer: _ORDER.index(layer.kind)))
        own = [layer for layer in given if layer.kind == "floor"]
        below = [each for layer in own for each in _floor_presets(layer)]
        settings = _stacked(given)
        limits = merged([*below, *own]) if own else None
        faults = Faults()
        if limits is not None:
            check_values(limits, settings, faults)
        _check_together(settings, faults)
        faults.raise_any()
        return cls(given, settings, limits)

    @classmethod
    def unchecked(cls, layers: Sequence[Layer]) -> Policy:
        """What some layers say together, to compare it: nothing is refused, and the floor is no limit."""
        given = tuple(sorted(layers, key=lambda layer: _ORDER.index(layer.kind)))
        return cls(given, _stacked(given), None)

    def resolve(self, facts: HostFacts | None = None) -> ResolvedPolicy:
        """Put the policy on a host: that of `facts`, or this one as it is now.

        `$PROJECT` is here the directory of the project's file, and without one the current directory. What is
        raised is said at `sandwright.policy.resolve.resolve` and `sandwright.policy.collect.collect`.
        """
        files = [layer.file for layer in self.layers if layer.file is not None]
        facts = facts or self.facts()
        own = [path for path in [users_directory(facts)] if facts.kind(canonical(path, facts)) is not None]
        return resolve(self.settings, facts, floor=self.floor, files=[*files, *own])

    def facts(self) -> HostFacts:
        """What this host is like, as far as the policy looks at it. Raise like `collect`."""
        from sandwright.policy.collect import collect  # noqa: PLC0415 - it looks at the host

        return collect(self, project=self._project())

    def render(self, method: str, facts: HostFacts | None = None) -> Rendered:
        """The artifacts of a method for that host, or this one, as bytes: nothing is written.

        Raise RenderError that names each feature the method can't enforce and `degrade` does not accept,
        UsageError for a method that there is not, and where the sandbox could write what this program is
        loaded from; and what `resolve` raises.
        """
        from sandwright.render.methods import render  # noqa: PLC0415 - above us: the Python API hangs here

        resolved = self.resolve(facts)
        if facts is None:
            from sandwright.policy.installation import refuse_changeable  # noqa: PLC0415 - it looks at the host

            refuse_changeable(resolved)
        return render(resolved, method)

    def is_path_readable(self, path: str, facts: HostFacts | None = None, *, method: str = "") -> bool:
        """Whether the policy lets a path of that host, or of this one, be read.

        With `method`: whether what that method renders lets it, which may be stricter. Then raise like
        `explain`, and RenderError when the method can't enforce the policy.
        """
        if method:
            return self._lets("read", path, facts, method)
        return self._knowing(path, facts).is_path_readable(path)

    def is_path_writable(self, path: str, facts: HostFacts | None = None, *, method: str = "") -> bool:
        """Whether the policy lets a path of that host, or of this one, be written.

        `method` is that of `is_path_readable`. Most methods refuse, for one, to make a directory on
        the way to a protected name: `.git`, where there is none.
        """
        if method:
            return self._lets("write", path, facts, method)
        return self._knowing(path, facts).is_path_writable(path)

    def _lets(self, question: str, path: str, facts: HostFacts | None, method: str) -> bool:
        row = self.explain(question, path, facts, methods=[method]).row(method)
        if row.status in ("refused", "not asked"):
            raise RenderError(row.reason or row.because)
        return row.decision == "allow"

    def explain(
        self,
        question: str,
        subject: str,
        facts: HostFacts | None = None,
        *,
        methods: Sequence[str] = (),
        architectures: Sequence[str] = (),
        arguments: Sequence[int] | None = None,
    ) -> Comparison:
        """Answer a question about that host, or this one: the policy's answer, and what `methods` decide.

        The questions are `read`, `write` and `exec` of a path, `connect` to `host:port` or a socket, `env` of
        a variable, `syscall` of a call with `arguments`. Only the methods that are named are rendered and
        asked. Raise UsageError for a question that makes no sense.
        """
        from sandwright.evaluate.explain import explain_methods  # noqa: PLC0415 - above us, like `render`

        return explain_methods(
            self.asked(question, subject, facts),
            question,
            subject,
            arguments=arguments,
            methods=methods,
            architectures=architectures,
        )

    def asked(self, question: str, subject: str, facts: HostFacts | None = None) -> ResolvedPolicy:
        """The policy on a host of which it is known what is at the path that a question is about."""
        paths = question in ("read", "write", "exec")
        about_path = paths or (question == "connect" and subject.startswith(("/", "~", "$")))
        return self._knowing(subject, facts) if about_path else self.resolve(facts)

    def _knowing(self, path: str, facts: HostFacts | None) -> ResolvedPolicy:
        resolved = self.resolve(facts)
        if facts is not None:
            return resolved
        from sandwright.policy.collect import knowing  # noqa: PLC0415 - it looks at the host

        return knowing(resolved, path)

    def _project(self) -> Path:
        files = [layer.file for layer in self.layers if layer.kind == "project" and layer.file is not None]
        try:
            return Path(files[-1]).parent if files else Path.cwd()
        except OSError as error:
            raise UsageError(f"the current directory can't be told: {error.strerror}") from error

    def environment_names(self) -> frozenset[str]:
        """The variables of the environment that paths of the policy use."""
        return frozenset(
            name for text, _ in self.spelled_paths() for name in spelling.environment_names(text)
        )

    def spelled_paths(self) -> tuple[tuple[str, Source], ...]:
        """Every path that the policy names, as it is spelled."""
        lists = (
            "filesystem.read",
            "filesystem.write",
            "filesystem.readonly",
            "filesystem.deny",
            "network.unix_sockets",
        )
        found = [(item.value, item.source) for name in lists for item in self.settings.items(name)]
        found += [(item.value.path, item.source) for item in self.settings.items("filesystem.unprotect")]
        seccomp = self.settings.values.get("process.seccomp")
        if seccomp and seccomp.value == self.seccomp_file():
            found.append((seccomp.value, seccomp.source))
        return tuple(found)

    def named_paths(self, facts: HostFacts) -> Iterator[tuple[str, Source]]:
        """The same, with the values that variables have on a host; links not resolved."""
        for text, source in self.spelled_paths():
            try:
                path = spelling.expanded(text, facts.variables)
            except ValueError:
                continue  # resolving the policy says so, with its place
            if path == spelling.plain(path):
                yield path, source

    def check_facts(self, facts: HostFacts) -> None:
        """Raise DocumentError for each path that the policy names and facts were recorded without.

        What facts don't hold counts as what isn't there, and so a grant or a restriction would go unsaid.
        """
        faults = Faults()
        for path, source in self.named_paths(facts):
            if path not in facts.named:
                faults.add(source, f"the facts lack {path}: record them again")
        faults.raise_any()

    def seccomp_file(self) -> str:
        """The file that `process.seccomp` names, as it is spelled; empty when it names a shipped profile."""
        name: str = self.settings.value("process.seccomp") or ""
        return name if name.startswith(("/", "~", "$")) else ""


def users_directory(facts: HostFacts) -> str:
    """Where the user's own policy and the user's word for those of others are: read-only inside."""
    base = facts.environment.get("XDG_CONFIG_HOME", "")
    return f"{base if base.startswith('/') else f'{facts.home}/.config'}/sandwright"


def _stacked(given: Sequence[Layer]) -> Settings:
    """What layers in their order say together with the presets and what is built in."""
    own = [layer for layer in given if layer.kind == "floor"]
    others = [layer for layer in given if layer.kind != "floor"]
    below = [each for layer in own for each in _floor_presets(layer)]
    return merged([load.built_in(), *load.presets(base(others)), *below, *given])


def _floor_presets(layer: Layer) -> tuple[Layer, ...]:
    """The presets that a floor extends, as parts of the floor."""
    return tuple(replace(each, kind="floor", preset="") for each in load.presets(layer.policy.extends or ()))


def _check_together(settings: Settings, faults: Faults) -> None:
    """What no layer alone can see."""
    mode, allow = settings.values["network.mode"], settings.items("network.allow")
    if mode.value == "host" and allow and allow[-1].source.rank >= mode.source.rank:
        message = f"nothing is filtered with mode: host ({mode.source}); use mode: proxy"
        faults.add(settings.given["network.allow"], message)
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
