"""Decoders of options that several commands have: a policy, a run under it, facts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sandwright.api import Policy
from sandwright.cli.arguments import read_file
from sandwright.inputs import LiveHost
from sandwright.policy.facts import HostFacts
from sandwright.reading import quoting_no_link
from sandwright.session.prepare import load_layers
from sandwright.session.request import RunRequest


def load_policy(request: RunRequest) -> Policy:
    """The policy of all layers, as a run takes it: operator, user, the named file, and this run."""
    return Policy.from_layers(load_layers(request, LiveHost(), display_name=request.shown()).layers)


def request_for(
    policy: str, settings: Sequence[str] | None = None, presets: Sequence[str] | None = None
) -> RunRequest:
    """A run under a policy file, for queries that start nothing. With `presets`, the file may be missing."""
    try:
        here = str(Path.cwd())
    except FileNotFoundError:
        here = str(Path(policy).parent)  # the current directory was removed, and no path needs it
    return RunRequest([], policy=policy, cwd=here, settings=list(settings or ()), presets=list(presets or ()))


def read_facts(file: str, policy: Policy) -> HostFacts | None:
    """The facts in a file, None for no file. Raise DocumentError when they are not about this policy."""
    if not file:
        return None

    with quoting_no_link(file, file):
        facts = HostFacts.from_json(read_file(file), file=file)
    policy.check_facts(facts)
    return facts
