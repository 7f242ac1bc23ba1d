"""Tasks about shims: run something beside a bridge, and ask what a policy lets through."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.context import Context
from invoke.exceptions import Exit

from sandwright.cli import console
from sandwright.cli.command import command, words_after_dashes
from sandwright.cli.trust import TRUST_HELP, looked_at
from sandwright.errors import UsageError, VerdictError

if TYPE_CHECKING:
    from sandwright.policy.resolved import ResolvedPolicy

POLICY_HELP = "the project's policy (absent: sandbox.yaml)"
SET_HELP = "a setting of this run, FIELD=VALUE; may be given several times"


@command(iterable=["set"], help={"policy": POLICY_HELP, "set": SET_HELP, "trust-policy": TRUST_HELP})
def bridge(
    c: Context,  # noqa: ARG001
    *,
    policy: str = "sandbox.yaml",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
    trust_policy: bool = False,
) -> None:
    """Run a rendered launcher beside a bridge: `bridge [options] -- .sandbox/bwrap/launch COMMAND`.

    Exits as the command does. `run` does this by itself.
    """
    from sandwright import foreground  # noqa: PLC0415
    from sandwright.bridge.start import serve  # noqa: PLC0415

    words = words_after_dashes()
    if not words:
        raise UsageError("give a command to run, behind --")
    looked_at(policy, set, word=trust_policy)
    with serve(_resolved(policy, set)) as running:
        environment, passed = {**os.environ, **running.environment}, (running.channel,)
        status = foreground.run(words, environment, deliver=lambda *_: "", relay=False, passed=passed)
    raise Exit(code=status)


@command(iterable=["set"], help={"policy": POLICY_HELP, "set": SET_HELP})
def shim_check(
    c: Context,  # noqa: ARG001
    *,
    policy: str = "sandbox.yaml",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
) -> None:
    """Say what the host would be given for a shim's call, without running it: `shim-check -- git push`.

    Without a call: what each shim lets through. Fails where the bridge would refuse the call, for what
    the policy says, a remote that it does not know, or a file that it keeps from the sandbox.
    """
    from sandwright.bridge.check import given  # noqa: PLC0415
    from sandwright.bridge.grammar import Refused, compile_grammar, entry_text  # noqa: PLC0415
    from sandwright.bridge.profiles import profile_of  # noqa: PLC0415

    resolved = _resolved(policy, set)
    shims = resolved.credentials.shims
    grammars = {name: compile_grammar(name, shim.allow, profile_of(name)) for name, shim in shims.items()}
    words = words_after_dashes()
    if not words:
        for name, grammar in grammars.items():
            known = "known" if grammar.profile else "plain words only"
            entries = ", ".join(map(entry_text, grammar.entries)) or "nothing"
            console.line(f"{name} ({known}): {entries}")
        return
    try:
        console.line(shlex.join([words[0], *given(resolved, grammars, words, Path.cwd())]))
    except Refused as refusal:
        raise VerdictError(str(refusal)) from refusal


def _resolved(policy: str, settings: Sequence[str] | None) -> ResolvedPolicy:
    from sandwright.api import Policy  # noqa: PLC0415
    from sandwright.policy.load import layers_for, read_layer  # noqa: PLC0415

    path = Path(policy)
    layers = layers_for(path.parent, os.environ, settings=list(settings or ()))
    below = [layer for layer in layers if layer.kind != "project"]
    return Policy.from_layers([*below, read_layer(path, kind="project")]).resolve()
