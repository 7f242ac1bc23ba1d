"""Gives an engine the images of ours that a run needs, as `build-images` left them.

An engine keeps what it was given under a name, whatever was built since: what the policy names would be one
image under runc and an older one under Docker. So an image that was built here and that the engine doesn't
have, or has another of, is loaded. One that was not built here is the engine's own affair.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from sandwright import process
from sandwright.errors import CommandFailed, HostError
from sandwright.image.existing import PlatformImage, read_layout
from sandwright.image.export import write_image
from sandwright.inputs import InputTracker
from sandwright.methods.contract import Say, quiet
from sandwright.methods.shared.images import layouts
from sandwright.policy.resolved import ResolvedPolicy

PROXY = "proxy"
"""The image of the proxy, which an engine's launcher starts beside a sandbox."""

_ASKING = 60.0
"""Seconds for a question: where much else runs, Podman without root takes more than 20."""
_LOADING = 300.0


def load_built(
    engine: str,
    policy: ResolvedPolicy,
    inputs: InputTracker,
    settings: Mapping[str, str],
    *,
    say: Say = quiet,
) -> None:
    """See to it that an engine's images of ours are those that were built here.

    `settings` are variables that its client needs. Raise HostError when an image lies where the sandbox could
    write, or the engine does not take it; IntegrityError when it is not whole.
    """
    for name in _needed(policy):
        for layout in layouts(policy, name, inputs):
            give(engine, name, layout, policy.facts.platform, settings, say=say)
            break


def give(
    engine: str, name: str, layout: Path, platform: str, settings: Mapping[str, str], *, say: Say = quiet
) -> None:
    """Load an image out of a layout into an engine that does not have this very one, under our name for it.

    Raise HostError when the engine does not take it, IntegrityError when it is not whole.
    """
    environment, reference = (
        {**os.environ, "PATH": process.search_path(), **settings},
        f"sandwright/{name}:latest",
    )
    built = read_layout(layout)
    image = built.images.get(platform)
    if image is not None and not _is(image, engine, reference, environment):
        size = sum(layer.size for layer in image.layers)
        say(f"{engine} gets the image {name} ({size / 1e6:.0f} MB) as it was built here, once")
        with tempfile.TemporaryFile() as archive:
            write_image(built, platform, archive, reference=reference)
            archive.seek(0)
            _load(engine, reference, archive, environment)


def _needed(policy: ResolvedPolicy) -> Iterator[str]:
    """Names of images; those that are not ours are in no build."""
    if "/" not in policy.image and ":" not in policy.image:
        yield policy.image
    if policy.network.mode == "proxy":
        yield PROXY


def _is(image: PlatformImage, engine: str, reference: str, environment: Mapping[str, str]) -> bool:
    """Whether the engine has this very image: it names one by its configuration or by its manifest."""
    argv = (engine, "image", "inspect", "--format", "{{.Id}}", reference)
    found = process.run(*argv, check=False, timeout=_ASKING, env=environment)
    return bool(found) and found.text.strip().removeprefix("sha256:") in {
        image.config.name,
        image.manifest.name,
    }


def _load(engine: str, reference: str, archive: IO[bytes], environment: Mapping[str, str]) -> None:
    try:
        process.run(engine, "load", "--quiet", stdin=archive, timeout=_LOADING, env=environment)
    except CommandFailed as error:
        raise HostError(f"{engine} does not take {reference}, which was built here: {error}") from error
