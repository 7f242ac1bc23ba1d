"""The parts of a method of ours, imported when they are called: most starts need none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sandwright.errors import RenderError
from sandwright.lazy import load
from sandwright.methods.properties import Answers

if TYPE_CHECKING:  # what the registry and each start would import for the names of types
    from sandwright.evaluate.explain.reading import ReadBack
    from sandwright.methods.contract import Backend
    from sandwright.policy.declaration import Declaration
    from sandwright.policy.resolved import ResolvedPolicy
    from sandwright.render.artifact import Artifact
    from sandwright.render.rendered import Rendered


class MethodParts:
    """What `contract.Method` asks of a method, each from the module of its package that the table names."""

    def __init__(
        self,
        package: str,
        *,
        artifacts: str,
        backend: str,
        reader: str = "",
        reader_needs_policy: bool = False,
        declaration: str = ".support:DECLARATION",
        expected: str = ".expected:EXPECTED",
    ) -> None:
        """Each is "module:name", relative to `package`. Without a `reader` nothing can be read back."""
        self._package = package
        self._artifacts = artifacts
        self._backend = backend
        self._reader = reader
        self._reader_needs_policy = reader_needs_policy
        self._declaration = declaration
        self._expected = expected

    def declare(self) -> Declaration:
        """What it makes of each feature of a policy."""
        declaration: Declaration = load(self._declaration, self._package)
        return declaration

    def make_artifacts(self, policy: ResolvedPolicy) -> tuple[Artifact, ...]:
        """The artifacts for a policy."""
        render: Callable[[ResolvedPolicy], tuple[Artifact, ...]] = load(self._artifacts, self._package)
        return render(policy)

    def read_artifacts(self, rendered: Rendered, policy: ResolvedPolicy) -> ReadBack:
        """What its artifacts decide."""
        if not self._reader:
            name = self._package.rpartition(".")[2]
            raise RenderError(f"{name} is rendered, but not read back yet")
        read: Callable[..., ReadBack] = load(self._reader, self._package)
        return read(rendered, policy) if self._reader_needs_policy else read(rendered)

    def make_backend(self) -> Backend | None:
        """What starts its sandboxes here."""
        backend: Callable[[], Backend] = load(self._backend, self._package)
        return backend()

    def expect(self) -> Mapping[str, Answers]:
        """What probes must see."""
        expected: Mapping[str, Answers] = load(self._expected, self._package)
        return expected


def part(package: str, where: str) -> Callable[[], Any]:
    """A function that gives a part of a method's variant; `where` is "module:name"."""
    return lambda: load(where, package)


def call(package: str, where: str) -> Callable[..., Any]:
    """A function that calls a part of a method's variant with its arguments; `where` is "module:name"."""

    def loaded(*arguments: object) -> Any:  # noqa: ANN401 - as the part
        return load(where, package)(*arguments)

    return loaded
