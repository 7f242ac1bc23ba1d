"""Launchers of policies, rendered for a project on this host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandwright.api import Policy
from sandwright.methods.registry import render
from sandwright.policy.collect import collect_facts
from support.goldens import write_artifacts


def launcher_of(
    text: str,
    method: str,
    out: Path,
    *,
    project: Path,
    environ: Mapping[str, str] | None = None,
    **facts: Any,
) -> Path:
    """Render a policy for a project into a directory, and return its launcher.

    Without `environ`, the home is the directory above the project. `facts` replace those of this host.
    """
    policy = Policy.from_text(text)
    found = collect_facts(policy, project=project, environ=environ or {"HOME": str(project.parent)})
    resolved = policy.resolve(replace(found, **facts))
    return write_artifacts(out, render(resolved, method).artifacts) / "launch"
