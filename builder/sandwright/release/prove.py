"""Proves methods on an image, and keeps the matrix as evidence about the image's digest.

Only methods that run on the image's own root file system count: they take it from the layout by its digest.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sandwright import user_dirs
from sandwright.errors import IntegrityError, UsageError
from sandwright.host import collect_host
from sandwright.methods import METHODS as OURS
from sandwright.policy.trusted import BUILD, ROOTFS
from sandwright.progress import SILENT, Progress
from sandwright.release.evidence import Matrix
from sandwright.rootfs.images.source import open_image
from sandwright.session.request import RunRequest
from sandwright.verify.command import verify_policy
from sandwright.verify.report import PolicyReport

METHODS = tuple(name for name, each in OURS.items() if each.properties.unpacked_image)
"""The methods that run on an image's own root."""

POLICY = """\
schema: 1
method: oci
image: {image}
network: {{mode: none}}
filesystem:
  write: [$PROJECT]
"""
"""The default policy of a proof."""


def prove_image(
    name: str, output: Path, methods: Sequence[str], *, policy: str = "", progress: Progress = SILENT
) -> tuple[Matrix, PolicyReport]:
    """Prove a built image of this machine's platform with some methods of `METHODS`.

    `policy` is the text of a policy, absent `POLICY`. Raise UsageError for a method that doesn't run on an
    image's root, and if the environment names another root; raise the exceptions of verifying.
    """
    for method in methods:
        if method not in METHODS:
            raise UsageError(
                f"{method!r} does not run on the image's own root; there is {', '.join(METHODS)}"
            )
    if os.environ.get(ROOTFS):
        raise UsageError(f"{ROOTFS} is set: that root would be proved, not the image")
    layout, platform = output / "images" / name, collect_host().platform
    digest = open_image(layout, platform=platform).digest
    text = policy or POLICY.format(image=name)
    os.environ[BUILD] = str(output.absolute())
    place = user_dirs.visible_scratch()
    with tempfile.TemporaryDirectory(prefix="sandwright-prove-", dir=place) as project:
        path = Path(project, "sandbox.yaml")
        path.write_text(text, encoding="utf-8")
        request = RunRequest([], policy=str(path), settings=[f"image={name}"])
        report, _ = verify_policy(request, ",".join(methods), progress=progress)
    if open_image(layout, platform=platform).digest != digest:
        raise IntegrityError(f"{layout}: the image was built anew while it was proved")
    return Matrix(name, platform, digest, text, tuple(report.to_json())), report
