"""The tasks that prove sandboxes: `sandwright verify` and `prove`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.context import Context

from sandwright.cli import console
from sandwright.cli.command import command
from sandwright.cli.trust import TRUST_HELP, looked_at
from sandwright.errors import VerdictError

if TYPE_CHECKING:
    from sandwright.verify.report import Report

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
        "trust-policy": TRUST_HELP,
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
    trust_policy: bool = False,
) -> None:
    """Prove a policy: attempt in a real sandbox what it denies and what it allows.

    Fails on anything that is not as expected, and on anything undecided. A skip says why; it fails for
    methods that `--require` names.
    """
    from sandwright.verify import command as proving  # noqa: PLC0415

    looked_at(policy, set, word=trust_policy)
    with console.watching() as progress:
        report, named = proving.verify_policy(
            Path(policy),
            method,
            environ=os.environ,
            settings=set or (),
            progress=progress,
        )
    proving.write(report, json=json, junit=junit, html=html)
    _show(report, named=named, required=_names(require))


@command(
    iterable=["preset"],
    help={
        "preset": "a preset that ships; may be given several times (absent: all)",
        "method": "methods to prove them with, M[,M...] (absent: all)",
        "require": "methods, M[,M...], of which a skip is a failure",
        "output": "directory that images are built in; the reports go into its directory verify",
    },
)
def prove(
    c: Context,  # noqa: ARG001
    *,
    preset: Sequence[str] | None = None,
    method: str = "all",
    require: str = "",
    output: str = "build",
) -> None:
    """Prove the presets that ship, with every method that works here, and write reports to build/verify.

    Each in a new project that grants itself to be written: verify/PRESET/ gets verify.json, junit.xml and
    verify.html. Fails as `verify` does.
    """
    from sandwright.verify import shipped  # noqa: PLC0415

    faults = 0
    with console.watching() as progress:
        for name, (report, named) in shipped.prove_presets(
            preset or (), method, output=Path(output), environ=os.environ, progress=progress
        ):
            folder = Path(output, "verify", name)
            shipped.write(report, folder)
            console.line(f"preset {name}: {folder}/verify.html")
            faults += _tell(report, named=named, required=_names(require))
    if faults:
        raise VerdictError(f"the presets are not proved: {faults} probes")


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _show(report: Report, *, named: Sequence[str], required: Sequence[str]) -> None:
    """Raise VerdictError when it is not green."""
    faults = _tell(report, named=named, required=required)
    if faults:
        raise VerdictError(f"{report.policy} is not proved: {faults} of {len(report.outcomes)} probes")


def _tell(report: Report, *, named: Sequence[str], required: Sequence[str]) -> int:
    """Print a report, and give how many faults it has."""
    from sandwright.verify.report import summary  # noqa: PLC0415

    console.table(*summary(report))
    faults = report.faults(named=named, required=required)
    for line in (*report.skips(), *report.notes, *faults):
        console.line(line)
    if not faults:
        console.line(f"{report.policy} is proved for {', '.join(report.proved())} in {report.seconds:.1f} s")
    return len(faults)
