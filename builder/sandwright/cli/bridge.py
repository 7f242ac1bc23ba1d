"""Commands about shims: running a program beside a bridge, and checking a call."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from sandwright import foreground
from sandwright.bridge.check import given
from sandwright.bridge.grammar import Refused, compile_grammar, entry_text
from sandwright.bridge.profiles import profile_of
from sandwright.bridge.start import serve
from sandwright.cli import console
from sandwright.cli.policy_arguments import load_policy, request_for
from sandwright.cli.trust import require_trust
from sandwright.errors import UsageError, VerdictError
from sandwright.launcher.plan import NAME
from sandwright.launcher.run_document import RunDocument, handed_over, with_document


def bridge(
    *,
    policy: str = "sandbox.yaml",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
    trust_policy: bool = False,
    words: Sequence[str],
) -> int:
    """Run a rendered launcher beside a bridge; give its exit status."""
    if not words:
        raise UsageError("give a command to run, behind --")
    request = request_for(policy, set)
    require_trust(request, accepted=trust_policy)
    with serve(load_policy(request).resolve()) as running:
        argv, environment = list(words), {**os.environ, **running.environment}
        with handed_over(RunDocument(shims=str(running.public), channel=running.channel)) as file:
            if (Path(words[0]).parent / NAME).exists():
                argv = with_document(argv, file)
            passed = (running.channel, file)
            return foreground.run(argv, environment, send_signal=lambda *_: "", relay=False, passed=passed)


def shim_eval(
    *,
    policy: str = "sandbox.yaml",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
    words: Sequence[str],
) -> None:
    """Show the host's side of a shim's call; without a call, what each shim lets through."""
    resolved = load_policy(request_for(policy, set)).resolve()
    shims = resolved.credentials.shims
    grammars = {name: compile_grammar(name, shim.allow, profile_of(name)) for name, shim in shims.items()}
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
