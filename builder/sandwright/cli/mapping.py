"""The command that proves user mapping: `sandwright verify-mapping`."""

from __future__ import annotations

from sandwright.checked import Checked
from sandwright.cli import console
from sandwright.cli.arguments import build_directory, image_path, names
from sandwright.errors import VerdictError
from sandwright.host import collect_host
from sandwright.verify.mapping.prove import prove_mapping as prove
from sandwright.verify.mapping.starts import PROVED


def verify_mapping(
    *,
    image: str,
    runtime: str = "",
    output: str = "",
) -> Checked:
    """Prove which user an image with `config.init` runs as, and who owns new files.

    Only root can. Fails on anything that is not as expected.
    """
    runtimes = names(runtime, "--runtime") or list(PROVED)
    with console.watching() as progress:
        platform, store = collect_host().platform, build_directory(output) / "rootfs"
        reports = list(
            prove(
                image_path(image, build_directory(output), kind="layout"),
                platform=platform,
                store=store,
                runtimes=runtimes,
                progress=progress,
            )
        )
    started = zip(*(row.findings for row in reports), strict=True)
    console.table(
        ["started", *runtimes], [[same[0].check, *(str(each.verdict) for each in same)] for same in started]
    )
    findings = [(row.runtime, finding) for row in reports for finding in row.findings]
    faults = [f"{name}: {each.check}: {each.detail}" for name, each in findings if each.detail]
    for line in faults:
        console.line(line)
    if faults:
        raise VerdictError(f"{image} does not map its user: {len(faults)} of {len(findings)} starts")
    return Checked(len(findings))
