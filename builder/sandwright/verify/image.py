"""The root for methods whose root is an image's: the policy's image where it is built, else a bare one.

The probe program is static and is mounted in, so that any root serves: one without a single program too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from sandwright.render.baseline import load_baseline
from sandwright.verify.subject import Subject


@dataclass(frozen=True)
class Root:
    """A directory with a root file system. `note` says for the report what it is."""

    path: Path
    note: str


def root_file_system(subject: Subject, build: Path) -> Root:
    """The policy's image as `invoke build-images` unpacked it below `build`, else a bare root of this run."""
    name, architecture = subject.policy.image, subject.policy.facts.platform.partition("/")[2]
    bundle = build / "bundles" / f"{name}-{architecture}"
    try:
        config = json.loads((bundle / "config.json").read_bytes())
        path = (bundle / config["root"]["path"]).resolve(strict=True)
    except (OSError, ValueError, KeyError, TypeError):
        why = f"the image {name} is not built in {build}"
        return Root(_bare(subject), f"{subject.method}: on a bare root that holds no programs, as {why}")
    return Root(path, f"{subject.method}: on the image {name}, {path.name}")


def _bare(subject: Subject) -> Path:
    """Mount points and nothing else."""
    root = subject.ground.root / "rootfs"
    baseline = load_baseline()
    for point in baseline.directories:
        (root / point.path[1:]).mkdir(parents=True)
        (root / point.path[1:]).chmod(point.mode)
    (root / "usr").mkdir()
    for point in baseline.files:
        _place(root / point.path[1:], directory=False)
    for rule in subject.policy.filesystem.rules:
        kind = subject.policy.facts.kind(rule.path)
        if rule.origin == "listed" and rule.path != "/" and kind is not None and kind != "symlink":
            _place(root / rule.path[1:], directory=kind == "directory")
    return root


def _place(path: Path, *, directory: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if directory:
        path.mkdir(exist_ok=True)
    else:
        path.touch()
