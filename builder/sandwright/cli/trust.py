"""The command that approves the grants of a policy: `sandwright trust`."""

from __future__ import annotations

import sys

from sandwright.cli import console
from sandwright.cli.policy_arguments import request_for
from sandwright.errors import UsageError, VerdictError
from sandwright.inputs import LiveHost
from sandwright.policy.collect import public_environment
from sandwright.policy.facts import CERTIFICATES, HostFacts
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.paths import canonical, is_inside
from sandwright.session import trust as store
from sandwright.session.loosened import loosened
from sandwright.session.prepare import load_layers
from sandwright.session.request import RunRequest
from sandwright.session.trust import Loosened


def trust(
    *,
    policy: str = "sandbox.yaml",
    yes: bool = False,
    forget: bool = False,
) -> None:
    """Show the grants of a policy beyond the preset `default`, and approve the policy in its current state.

    Asks on a terminal. A policy must be approved again after its text or its grants change.
    """
    request = request_for(policy)
    found = _loosened(request, load_layers(request, LiveHost()))
    if forget:
        store.forget(found)
        console.line(f"{found.policy}: no longer approved")
        return
    if not found.allows:
        console.line(f"{found.policy} allows nothing beyond the preset default")
        return
    console.line(f"{found.policy} allows beyond the preset default:")
    for each in found.log_lines():
        console.line(f"  {each}")
    console.line(f"{store.VARIABLE}={found.digest}")
    if not yes and not _agreed():
        raise VerdictError("declined at the prompt: the policy is not approved")
    console.line(f"recorded in {store.record(found)}")


def require_trust(request: RunRequest, policy: MergedPolicy, *, accepted: bool) -> None:
    """Warn about the grants of a request's policy. Raise UsageError if the user has not approved them.

    `policy` is the one that the caller goes on with: the file may be another one by then.
    """
    found = _loosened(request, policy)
    store.require_approval(found, word=accepted)
    if found.allows:
        console.warn(found.line())


def require_secrets(request: RunRequest, policy: MergedPolicy, facts: HostFacts) -> None:
    """Raise UsageError where a stranger's paths show the values of secrets that the user hasn't accepted."""
    if dict(facts.environment) == public_environment(facts.environment):
        return
    found = _loosened(request, policy)
    if found.secrets():
        store.require_approval(found)


def require_texts(request: RunRequest, policy: MergedPolicy, facts: HostFacts) -> None:
    """Raise UsageError if the facts hold a file outside the project that an unapproved policy names."""
    project = canonical(facts.project, facts)
    if all(path == CERTIFICATES or is_inside(path, project) for path in facts.texts):
        return
    found = _loosened(request, policy)
    if found.has_filter_file():
        store.require_approval(found)


def _loosened(request: RunRequest, policy: MergedPolicy) -> Loosened:
    return loosened(policy, request.policy, cwd=request.cwd)


def _agreed() -> bool:
    """Whether the person at the terminal says yes. Raise UsageError without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "there is no terminal to ask on; in CI set the variable above, or give --yes after a review"
        )
    console.write("Accept? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
