"""Gives an engine the images of ours that a run needs, as `build-images` left them.

An engine keeps an image under its name until it is loaded again, so the policy's name could mean a new image
under runc and an older one under Docker. So an image that was built here is loaded if the engine does not
have it or has a different one. Images from elsewhere are not loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sandwright.engines.client import EngineClient
from sandwright.errors import CommandFailed, HostError
from sandwright.image.existing import read_layout
from sandwright.image.export import write_image
from sandwright.inputs import LiveHost
from sandwright.methods.contract import Notify, quiet
from sandwright.methods.shared.images import layouts
from sandwright.policy.resolved import ResolvedPolicy

PROXY = "proxy"
"""The image of the proxy, which an engine's launcher starts beside a sandbox."""


def load_built(
    engine: EngineClient, policy: ResolvedPolicy, inputs: LiveHost, *, notify: Notify = quiet
) -> None:
    """Ensure that an engine's images of ours are those that were built here.

    Raise HostError when an image lies where the sandbox could write, or the engine does not take it;
    IntegrityError when it is not whole.
    """
    for name in _needed_images(policy):
        for layout in layouts(policy, name, inputs):
            load_image(engine, name, layout, policy.facts.platform, notify=notify)
            break


def load_image(
    engine: EngineClient, name: str, layout: Path, platform: str, *, notify: Notify = quiet
) -> None:
    """Load an image out of a layout into an engine that does not have this very one, under our name for it.

    Raise HostError when the engine does not take it, IntegrityError when it is not whole.
    """
    reference = f"sandwright/{name}:latest"
    built = read_layout(layout)
    image = built.images.get(platform)
    if image is None or engine.image_id(reference) in {image.config.name, image.manifest.name}:
        return
    size = sum(layer.size for layer in image.layers)
    notify(f"{engine.name} gets the image {name} ({size / 1e6:.0f} MB) as it was built here, once")

    def write(sink: BinaryIO, reference: str) -> None:
        write_image(built, platform, sink, reference=reference)

    try:
        engine.load_archive(write, reference)
    except CommandFailed as error:
        raise HostError(f"{engine.name} does not take {reference}, which was built here: {error}") from error


def _needed_images(policy: ResolvedPolicy) -> Iterator[str]:
    """Names of images; those that are not ours are in no build."""
    if "/" not in policy.image and ":" not in policy.image:
        yield policy.image
    if policy.network.mode == "proxy":
        yield PROXY
