"""The table of methods that can be rendered, and rendering by name: first what can't be said, then the files.

Each method is one pure module; a row names its function, which is imported when it is first used. Registered
methods bring a renderer and a declaration of their own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sandwright.errors import RenderError
from sandwright.policy.declaration import Support
from sandwright.policy.limits import with_kept_limits
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import Finding, check_expressible
from sandwright.render.artifact import Artifact

Renderer = Callable[[ResolvedPolicy], tuple[Artifact, ...]]
"""Makes a method's artifacts of a policy. It is pure: what is known of the host are the policy's facts."""


@dataclass(frozen=True)
class Rendered:
    """A method's artifacts, and what the method makes of the policy other than what it says."""

    method: str
    artifacts: tuple[Artifact, ...]
    findings: tuple[Finding, ...]

    def artifact(self, name: str) -> Artifact:
        """The artifact of a name. Raise KeyError when there is none."""
        for each in self.artifacts:
            if each.name == name:
                return each
        raise KeyError(name)


def _row(method: str, module: str, function: str) -> Renderer:
    def renderer(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
        found = importlib.import_module(f"sandwright.methods.{module}")
        artifacts: tuple[Artifact, ...] = getattr(found, function)(with_kept_limits(policy, method))
        return artifacts

    return renderer


METHODS: Mapping[str, Renderer] = MappingProxyType({
    "bwrap": _row("bwrap", "bwrap.render", "render_bwrap"),
    "docker": _row("docker", "shared.engine.render", "render_docker"),
    "podman": _row("podman", "shared.engine.render", "render_podman"),
    "gvisor": _row("gvisor", "shared.runtime_spec.render", "render_gvisor"),
    "oci": _row("oci", "shared.runtime_spec.render", "render_oci"),
    "seatbelt": _row("seatbelt", "seatbelt.render", "render_seatbelt"),
    "kubernetes": _row("kubernetes", "kubernetes.render", "render_kubernetes"),
    "user": _row("user", "user.render", "render_user"),
    "alcless": _row("alcless", "alcless.render", "render_alcless"),
    "noop": _row("noop", "noop.render", "render_noop"),
})  # fmt: skip
"""The renderers by method."""

FORMS: Mapping[str, str] = MappingProxyType({"devcontainer": "docker"})
"""What is rendered by its name like a method, and is another form of that method's sandbox: nothing that a
policy can name, and what it lacks is accepted by what `degrade` says of the method."""


def render(
    policy: ResolvedPolicy,
    method: str,
    *,
    renderer: Renderer | None = None,
    declaration: Mapping[str, Support] | None = None,
) -> Rendered:
    """A method's artifacts for a policy. `renderer` and `declaration` are those of a registered method.

    Raise RenderError that names each feature the method can't enforce and `degrade` does not accept, or for a
    method that has no renderer; UsageError for a method nobody declares. `method` may be one of `FORMS`.
    """
    base = FORMS.get(method, method)
    if method in FORMS and renderer is None:
        form = importlib.import_module(f"sandwright.methods.{base}.{method}")
        renderer, declaration = form.render_form, form.DECLARATION
    findings = check_expressible(policy, base, declaration)
    policy = with_kept_limits(policy, base, declaration)
    chosen = renderer if renderer is not None else METHODS.get(method)
    if chosen is None:
        raise RenderError(f"{method} can't be rendered yet; there is {', '.join(METHODS)}")
    artifacts = chosen(policy)
    _check_names(method, artifacts)
    return Rendered(method, artifacts, findings)


def _check_names(method: str, artifacts: tuple[Artifact, ...]) -> None:
    """Refuse what would be written outside the method's directory, or over another artifact."""
    seen: set[str] = set()
    for artifact in artifacts:
        name = artifact.name
        if name in seen or not all(name.split("/")) or {".", ".."} & set(name.split("/")):
            raise RenderError(f"{method} gives an artifact a name that it can't have: {name!r}")
        seen.add(name)
