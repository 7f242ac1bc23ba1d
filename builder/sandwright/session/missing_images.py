"""The images that a run needs and that were not built, for `run --build`."""

from __future__ import annotations

from sandwright.inputs import LiveHost
from sandwright.methods import registry
from sandwright.methods.shared.images import why_missing
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.session import trust
from sandwright.session.loosened import loosened
from sandwright.session.prepare import load_layers, resolved_here
from sandwright.session.request import RunRequest


def missing_images(request: RunRequest) -> tuple[tuple[str, ...], str]:
    """The names of missing images that `build-images` can build, and the platform, such as `linux/amd64`.

    Raise SandwrightError for faults in the policy, and for a policy that needs approval.
    """
    inputs = LiveHost()
    policy = load_layers(request, inputs)
    found = loosened(policy, request.policy, cwd=request.cwd, inputs=inputs)
    trust.require_approval(found, word=request.trusted)
    resolved = resolved_here(policy, request, inputs)
    return tuple(name for name in _images_of_ours(resolved) if why_missing(name)), resolved.facts.platform


def _images_of_ours(policy: ResolvedPolicy) -> tuple[str, ...]:
    """Names with a registry or a tag are not ours."""
    ours = [policy.image] if not set(":/") & set(policy.image) else []
    proxy = policy.network.mode == "proxy" and any(
        registry.proxy_starter(name, policy) == "launcher" for name in policy.methods
    )
    needed = [*ours, *(["proxy"] if proxy else [])]
    return tuple(needed) if any(registry.properties(name).needs_image for name in policy.methods) else ()
