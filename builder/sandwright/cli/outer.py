"""The task that measures what gVisor's outer container needs: `sandwright minimise-capabilities`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from invoke.context import Context

from sandwright.cli import console
from sandwright.cli.command import command


@command(
    iterable=["engine", "mode"],
    help={
        "engine": "docker or podman; may be given several times (absent: both)",
        "mode": "rootful or rootless: whether runsc is root there; may be given several times (absent: both)",
        "rootfs": "an unpacked root with a shell (absent: that of the image debian in build/)",
        "to": "file to write what was measured to (absent: build/outer.json)",
    },
)
def minimise_capabilities(
    c: Context,  # noqa: ARG001
    *,
    engine: Sequence[str] | None = None,
    mode: Sequence[str] | None = None,
    rootfs: str = "",
    to: str = "build/outer.json",
) -> None:
    """Find the least capabilities and system calls with which gVisor works in a container.

    Every candidate is started for real, with a time limit. The engine must have the image `gvisor`. What is
    found is written down; what is shipped (`oci/outer.json`) is not changed.
    """
    from sandwright.methods.gvisor.outer import minimise as measuring  # noqa: PLC0415

    with console.watching() as progress:
        document = measuring.minimise(
            measuring.engines(engine or ()),
            mode or measuring.MODES,
            measuring.root(rootfs),
            progress=progress,
        )
    target = Path(to)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(measuring.encode(document))
    console.table(measuring.COLUMNS, list(measuring.rows(document)))
    console.line(f"runsc {document['runsc']['version']}, Linux {document['kernel']}: {target}")
