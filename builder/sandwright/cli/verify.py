"""The commands that prove sandboxes: `sandwright verify` and `verify-presets`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sandwright.checked import Checked
from sandwright.cli import console
from sandwright.cli.arguments import names
from sandwright.cli.policy_arguments import request_for
from sandwright.cli.trust import require_trust
from sandwright.errors import UsageError, VerdictError
from sandwright.verify import command as proving
from sandwright.verify import shipped
from sandwright.verify.foreign.command import verify_subject
from sandwright.verify.report import PolicyReport, summary


def verify(
    *,
    policy: str = "sandbox.yaml",
    method: str = "",
    json: str = "",
    junit: str = "",
    html: str = "",
    require: str = "",
    work: bool = False,
    preset: Sequence[str] | None = None,
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
    trust_policy: bool = False,
    subject: str = "",
    claims: str = "",
) -> Checked:
    """Prove a policy: attempt denied and allowed accesses in a real sandbox.

    With `subject` or `claims`, verify another sandbox command against its claims instead.
    With `work`, also run real programs for common tasks in a project. Raise VerdictError for a probe with
    another outcome than expected, or none. Every skip gives a reason, and fails for methods in `require`.
    """
    if subject or claims:
        if method or require or work or preset or set:
            raise UsageError("--subject and --claims take no --method, --require, --work, --preset or --set")
        return _verify_subject(subject, claims, json=json, junit=junit, html=html)
    required = names(require, "--require")
    request = request_for(policy, set, preset)
    approve = partial(require_trust, request, accepted=trust_policy)
    with console.watching() as progress:
        report, named = proving.verify_policy(request, method, progress=progress, work=work, approve=approve)
    proving.write_reports(
        report, json=json, junit=junit, html=html, faults=report.faults(named=named, required=required)
    )
    return _print_report(report, named=named, required=required)


def _verify_subject(subject: str, claims: str, *, json: str, junit: str, html: str) -> Checked:
    """Prove a command that is not ours. Raise VerdictError when it does not keep its claims."""
    with console.watching() as progress, progress.step("verifying the subject", unit="probes"):
        report = verify_subject(subject, claims)
    proving.write_reports(
        report, json=json, junit=junit, html=html, faults=report.faults(named=report.methods)
    )
    return _print_report(report, named=report.methods, required=())


def verify_presets(
    *,
    preset: Sequence[str] | None = None,
    method: str = "all",
    require: str = "",
    output: str = "build",
) -> Checked:
    """Prove the shipped presets with every method that works here, and write reports to build/verify.

    Each preset has a new project with write access to itself: verify/PRESET/ gets verify.json, junit.xml and
    verify.html. Raise like `verify`.
    """
    faults, checked, required = 0, Checked(), names(require, "--require")
    with console.watching() as progress:
        for name, (report, named) in shipped.prove_presets(
            preset or (), method, output=Path(output), progress=progress
        ):
            folder = Path(output, "verify", name)
            shipped.write_preset_report(report, folder, faults=report.faults(named=named, required=required))
            console.line(f"preset {name}: {folder}/verify.html")
            faults += _print_faults(report, named=named, required=required)
            checked.add(report.decided())
    if faults:
        raise VerdictError(f"the presets are not proved: {faults} probes")
    return checked


def _print_report(report: PolicyReport, *, named: Sequence[str], required: Sequence[str]) -> Checked:
    """Raise VerdictError when it is not green."""
    faults = _print_faults(report, named=named, required=required)
    if faults:
        raise VerdictError(f"{report.policy} is not proved: {faults} of {len(report.outcomes)} probes")
    return Checked(report.decided())


def _print_faults(report: PolicyReport, *, named: Sequence[str], required: Sequence[str]) -> int:
    """Print a report, and give how many faults it has."""
    console.table(*summary(report))
    faults = report.faults(named=named, required=required)
    for line in (*report.skips(), *report.notes, *report.weaker, *faults):
        console.line(line)
    if not faults:
        console.line(f"{report.policy} is proved for {', '.join(report.proved())} in {report.seconds:.1f} s")
    return len(faults)
