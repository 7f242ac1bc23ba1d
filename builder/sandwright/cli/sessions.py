"""Tasks about sessions: running a command, which methods work here, what runs, and clearing up."""

from __future__ import annotations

import json as encoder
from collections.abc import Sequence

from invoke.context import Context
from invoke.exceptions import Exit

from sandwright.cli import console
from sandwright.cli.command import command, words_after_dashes
from sandwright.cli.trust import TRUST_HELP
from sandwright.errors import HostError, SandwrightError

SET_HELP = "a setting of this run, FIELD=VALUE such as network.mode=none; may be given several times"


@command(
    iterable=["set"],
    help={
        "policy": "the project's policy (absent: sandbox.yaml)",
        "method": "the method of this run, in place of the policy's own",
        "outer": "the engine whose container gVisor runs in: docker, podman (as --set outer=…)",
        "set": SET_HELP,
        "time": "end it after this time: 90, 30m (as --set resources.time=…)",
        "cidfile": "write the container's id, or the session's without an engine, to this new file",
        "telemetry": "append a line about the session to this file (absent: what SANDWRIGHT_TELEMETRY names)",
        "trust-policy": TRUST_HELP,
    },
)
def run(
    c: Context,  # noqa: ARG001
    *,
    policy: str = "sandbox.yaml",
    method: str = "",
    outer: str = "",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
    time: str = "",
    cidfile: str = "",
    telemetry: str = "",
    trust_policy: bool = False,
) -> None:
    """Run a command in the sandbox of a policy: `run [options] -- COMMAND`; exits as the command does.

    125 says that nothing was run, and standard error why; 124 that the time was up.
    """
    from sandwright.cli.running import main  # noqa: PLC0415

    options = {"policy": policy, "method": method, "outer": outer, "time": time, "cidfile": cidfile}
    options["telemetry"] = telemetry
    words = [f"--{name}={value}" for name, value in options.items() if value]
    words += [f"--set={each}" for each in set or ()]
    words += ["--trust-policy"] if trust_policy else []
    raise Exit(code=main([*words, "--", *words_after_dashes()]))


@command(
    iterable=["method"],
    help={
        "method": "only this method; may be given several times",
        "fresh": "start each sandbox anew, also where nothing has changed since the last time",
        "json": "answer as one JSON object",
    },
)
def doctor(
    c: Context,  # noqa: ARG001
    *,
    method: Sequence[str] | None = None,
    fresh: bool = False,
    json: bool = False,
) -> None:
    """Say which methods work here, by starting a sandbox of each; what the others lack, and how to get it."""
    from sandwright.session.doctor import diagnose  # noqa: PLC0415

    found = diagnose(fresh=fresh, methods=tuple(method or ()))
    if json:
        console.line(encoder.dumps(found.as_data(), indent=2))
        return
    console.line(f"this is a {found.surroundings.kind}")
    for restriction in found.surroundings.restrictions:
        console.line(f"  {restriction}")
    for need in found.surroundings.outer if found.held_back else ():
        console.line(f"  for sandboxes in here, the container needs {need}")
    rows = [[each.method, each.code, each.message, each.remedy] for each in found.methods]
    console.table(["method", "state", "what was found", "what helps"], rows)


@command(help={"json": "answer as one JSON object"})
def status(c: Context, json: bool = False) -> None:  # noqa: ARG001
    """Show the sessions of this user that run, and what is enforced in each."""
    from sandwright.session import state  # noqa: PLC0415

    found = [data for data in state.read_all() if state.runs(data)]
    if json:
        console.line(encoder.dumps({"sessions": found}, indent=2))
        return
    if not found:
        console.line("no session runs")
        return
    columns = ["session", "method", "pid", "command", "project", "enforced"]
    rows = [
        [*(str(data.get(name, "")) for name in columns[:-1]), _enforced(data.get("enforced"))]
        for data in found
    ]
    console.table(columns, rows)


def _enforced(data: object) -> str:
    """What is enforced, in a few words."""
    if not isinstance(data, dict):
        return ""
    parts = [f"network {data.get('network')}", f"seccomp {data.get('seccomp')}"]
    parts += [f"{len(data.get('write', ()))} writable", f"{data.get('denied')} denied"]
    parts += [f"{name} {value}" for name, value in dict(data.get("limits") or {}).items()]
    parts += [f"NOT {name}" for name in data.get("degraded", ())]
    return ", ".join(parts)


@command(help={"dry-run": "only say what would be removed", "json": "answer as one JSON object"})
def cleanup(c: Context, dry_run: bool = False, json: bool = False) -> None:  # noqa: ARG001
    """Remove what sessions left behind that were killed; never what runs, or isn't ours."""
    from sandwright.session.cleanup import described, leftovers, remove  # noqa: PLC0415

    found, stays = leftovers(), []
    for each in [] if dry_run else found:
        try:
            remove(each)
        except SandwrightError as error:
            stays.append(str(error))
    lines = described(found)
    if json:
        done = {"found": lines, "removed": not dry_run, "stays": stays}
        console.line(encoder.dumps(done, indent=2))
    else:
        for line in lines or ["nothing is left"]:
            console.line(("would remove " if dry_run else "removed ") * bool(lines) + line)
    if stays:
        raise HostError("\n".join(stays))
