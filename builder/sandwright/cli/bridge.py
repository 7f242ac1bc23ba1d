"""Commands about shims: running a program beside a bridge, and checking a call."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from sandwright import foreground
from sandwright.bridge.check import decide_call
from sandwright.bridge.grammar import Refused, compile_grammar, entry_text
from sandwright.bridge.profiles import profile_of
from sandwright.bridge.start import serve
from sandwright.cli import console
from sandwright.cli.artifacts import MANIFEST, changes, rendered_method
from sandwright.cli.policy_arguments import load_policy, request_for
from sandwright.cli.trust import require_trust
from sandwright.errors import IntegrityError, UsageError, VerdictError
from sandwright.launcher.plan import NAME
from sandwright.launcher.run_document import RunDocument, handed_over, with_document
from sandwright.methods.registry import render
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.session.prepare import RENDERED


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
    program = shutil.which(words[0])
    if program is None:
        raise UsageError(f"{words[0]} is no program that can be executed")
    request = request_for(policy, set)
    loaded = load_policy(request)
    require_trust(request, loaded, accepted=trust_policy)
    resolved = loaded.resolve()
    _check_launcher(resolved, program, Path(request.policy).parent / RENDERED)
    with serve(resolved) as running:
        argv, environment = [program, *words[1:]], {**os.environ, **running.environment}
        with handed_over(RunDocument(shims=str(running.public), channel=running.channel)) as file:
            if (Path(program).parent / NAME).exists():
                argv = with_document(argv, file)
            passed = (running.channel, file)
            return foreground.run(argv, environment, send_signal=lambda *_: "", relay=False, passed=passed)


def _check_launcher(policy: ResolvedPolicy, program: str, rendered: Path) -> None:
    """Raise IntegrityError for a launcher that the policy does not render to, as `run` does.

    A repository can bring one along, and it would run here without a sandbox. `rendered` is the project's
    directory of artifacts. Other programs are the user's choice.
    """
    found = Path(shutil.which(program) or program).absolute()
    for directory in dict.fromkeys((found.parent, found.resolve().parent)):
        method = rendered_method(directory)
        in_project = directory.is_relative_to(rendered) or directory.is_relative_to(rendered.resolve())
        if not method and not in_project and not os.path.lexists(directory / NAME):
            continue
        stale = changes(render(policy, method), directory).names() if method else [f"no {MANIFEST} of ours"]
        if stale:
            raise IntegrityError(
                f"{directory}: {', '.join(stale)}: not what the policy renders to now: it was changed, or "
                "was not rendered from this policy; inspect `sandwright render --diff`, then render again"
            )


def shim_eval(
    *,
    policy: str = "sandbox.yaml",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
    words: Sequence[str],
) -> None:
    """Show how the bridge runs a shim's call; without a call, list the calls that each shim allows."""
    resolved = load_policy(request_for(policy, set)).resolve()
    shims = resolved.credentials.shims
    grammars = {name: compile_grammar(name, shim.allow, profile_of(name)) for name, shim in shims.items()}
    if not words:
        for name, grammar in grammars.items():
            profile = "known" if grammar.profile else "plain words only"
            entries = ", ".join(map(entry_text, grammar.entries)) or "nothing"
            console.line(f"{name} ({profile}): {entries}")
        return
    try:
        console.line(shlex.join([words[0], *decide_call(resolved, grammars, words, Path.cwd())]))
    except Refused as refusal:
        raise VerdictError(str(refusal)) from refusal
