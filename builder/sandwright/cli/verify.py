"""The task that proves sandboxes: `sandwright verify`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from invoke.context import Context

from sandwright.cli import console
from sandwright.cli.command import command
from sandwright.errors import VerdictError

POLICY_HELP = "the project's policy (absent: sandbox.yaml)"


@command(
    iterable=["set"],
    help={
        "policy": POLICY_HELP,
        "method": "methods to verify, M[,M...], or all (absent: the policy's own)",
        "json": "write the outcomes to this file: {probe, method, verdict, expected, observed, evidence}, …",
        "junit": "write them as JUnit's XML to this file",
        "html": "write a page with all evidence to this file",
        "require": "methods, M[,M...], of which a skip is a failure",
        "set": "a setting of this run, FIELD=VALUE such as network.mode=none; may be given several times",
    },
)
def verify(
    c: Context,  # noqa: ARG001
    *,
    policy: str = "sandbox.yaml",
    method: str = "",
    json: str = "",
    junit: str = "",
    html: str = "",
    require: str = "",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
) -> None:
    """Prove a policy: attempt in a real sandbox what it denies and what it allows.

    Fails on anything that is not as expected, and on anything undecided. A skip says why; it fails for
    methods that `--require` names.
    """
    from sandwright.verify import command as proving  # noqa: PLC0415

    with console.watching() as progress:
        report, named = proving.verify_policy(
            Path(policy),
            method,
            environ=os.environ,
            settings=set or (),
            progress=progress,
        )
    proving.write(report, json=json, junit=junit, html=html)
    console.table(*proving.table(report))
    for line in (*report.skips(), *report.notes):
        console.line(line)
    faults = report.faults(named=named, required=[name for name in require.split(",") if name])
    for line in faults:
        console.line(line)
    if faults:
        raise VerdictError(f"{policy} is not proved: {len(faults)} of {len(report.outcomes)} probes")
    console.line(f"{policy} is proved for {', '.join(report.methods)} in {report.seconds:.1f} s")
