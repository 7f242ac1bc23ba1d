"""The command that measures what gVisor's outer container needs: `sandwright minimise-capabilities`."""

from __future__ import annotations

from collections.abc import Sequence

from sandwright.cli import console


def minimise_capabilities(
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
    from sandwright.outputs import write_output  # noqa: PLC0415

    with console.watching() as progress:
        document = measuring.minimise(
            measuring.engines(engine or ()),
            mode or measuring.MODES,
            measuring.root(rootfs),
            progress=progress,
        )
    write_output(to, measuring.encode(document))
    console.table(measuring.COLUMNS, list(measuring.rows(document)))
    console.line(f"runsc {document['runsc']['version']}, Linux {document['kernel']}: {to}")
