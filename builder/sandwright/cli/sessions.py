"""Tasks about sessions: running a command, which methods work here, what runs, and clearing up."""

from __future__ import annotations

from collections.abc import Sequence

from invoke.context import Context
from invoke.exceptions import Exit

from sandwright.cli.command import command, words_after_dashes

SET_HELP = "a setting of this run, FIELD=VALUE such as network.mode=none; may be given several times"


@command(
    iterable=["set"],
    help={
        "policy": "the project's policy (absent: sandbox.yaml)",
        "method": "the method of this run, in place of the policy's own",
        "set": SET_HELP,
        "time": "end it after this time: 90, 30m (as --set resources.time=…)",
        "cidfile": "write the session's name to this file, which must not be there yet",
        "telemetry": "append a line about the session to this file (absent: what SANDWRIGHT_TELEMETRY names)",
    },
)
def run(
    c: Context,  # noqa: ARG001
    *,
    policy: str = "sandbox.yaml",
    method: str = "",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
    time: str = "",
    cidfile: str = "",
    telemetry: str = "",
) -> None:
    """Run a command in the sandbox of a policy: `run [options] -- COMMAND`; exits as the command does.

    125 says that nothing was run, and standard error why; 124 that the time was up.
    """
    from sandwright.cli.running import main  # noqa: PLC0415

    options = {"policy": policy, "method": method, "time": time, "cidfile": cidfile, "telemetry": telemetry}
    words = [f"--{name}={value}" for name, value in options.items() if value]
    words += [f"--set={each}" for each in set or ()]
    raise Exit(code=main([*words, "--", *words_after_dashes()]))
