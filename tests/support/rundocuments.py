"""Starts of rendered launchers with a run document, as `sandwright run` makes them."""

from __future__ import annotations

import shlex
from pathlib import Path

from sandwright.bridge.directory import Bridge
from sandwright.egress.start import Proxy
from sandwright.launcher.run_document import RunDocument, run_document_bytes


def launching(launcher: Path | str, document: RunDocument) -> str:
    """A program that becomes a launcher with a document, which lies beside the launcher's directory."""
    content = run_document_bytes(document)
    folder = Path(launcher).parent.parent
    name = f"run-{abs(hash((str(launcher), content)))}"
    file, program = folder / f"{name}.document", folder / name
    file.write_bytes(content)
    file.chmod(0o644)
    program.write_text(
        f'#!/bin/sh\nexec 9<{shlex.quote(str(file))}\nexec {shlex.quote(str(launcher))} --run 9 "$@"\n'
    )
    program.chmod(0o755)
    return str(program)


def proxied(running: Proxy) -> RunDocument:
    """The address and settings of a proxy."""
    return RunDocument(egress=str(running.directory))


def bridged(running: Bridge | None) -> RunDocument:
    """The socket of a bridge, or none."""
    if running is None:
        return RunDocument()
    return RunDocument(shims=str(running.public), channel=running.channel)
