"""The JSON documents of an image: config, manifest, index. Pure.

Formats: image-spec 1.1, config.md, manifest.md, image-index.md, annotations.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from sandwright.image.layout import Blob
from sandwright.image.sections import Config, Healthcheck
from sandwright.image.variant import PREFIX
from sandwright.rootfs.descriptor import OCI_INDEX, OCI_MANIFEST

REF_NAME = "org.opencontainers.image.ref.name"
ALL_PLATFORMS = "latest"
"""The name of the image for all platforms in a layout."""

INIT = "/usr/libexec/sandwright-init"
"""The path of the init process in images with `config.init`."""

CODEC = "dev.sandwright.layer.codec"
INPUTS = "dev.sandwright.inputs"
VARIANT = "dev.sandwright.variant"

Document = dict[str, Any]
_NANO = 1_000_000_000


@dataclass(frozen=True)
class BaseReference:
    """The base of an image: its digest, and its reference if it is in a registry."""

    digest: str
    reference: str | None = None

    def annotations(self) -> dict[str, str]:
        """The annotations about the base, without their prefix."""
        # Tools resolve `base.name` in a registry: an image of ours has no reference before it is published.
        name = {} if self.reference is None else {"base.name": self.reference}
        return {"base.digest": self.digest, **name}


@dataclass(frozen=True)
class ImageDescription:
    """Describes an image. `created` is in seconds since 1970.

    `codec` determines the compressed bytes of its layers. `labels` are those that identify it, of its
    definition and of the release.
    """

    name: str
    description: str
    created: int
    codec: str
    base: BaseReference | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def annotations(self) -> dict[str, str]:
        """The annotations for manifests and indexes (image-spec, annotations.md)."""
        found = {
            "title": self.name,
            "description": self.description,
            "created": timestamp(self.created),
            **({} if self.base is None else self.base.annotations()),
        }
        return {**self.labels, **{PREFIX + key: value for key, value in found.items()}}


@dataclass(frozen=True)
class LayerHistory:
    """A layer with its line of history.

    `created` is as `timestamp` writes it.
    """

    blob: Blob
    diff_id: str
    created_by: str
    created: str
    media_type: str


def timestamp(seconds: int) -> str:
    """A time in UTC, as in RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def platform_of(platform: str) -> dict[str, str]:
    """The platform object of `linux/arm64`. arm64 has the variant v8, as Go and Docker call it."""
    system, architecture = platform.split("/")
    return {
        "os": system,
        "architecture": architecture,
        **({"variant": "v8"} if architecture == "arm64" else {}),
    }


def architecture(platform: str) -> str:
    """`arm64` of `linux/arm64`, which also names that platform's manifest in a layout."""
    return platform.partition("/")[2]


def config(
    about: ImageDescription,
    platform: str,
    settings: Config,
    steps: Sequence[LayerHistory],
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Document:
    """The image config. Labels of the definition override ours; `more` holds further fields of its base."""
    history = [{"created": step.created, "created_by": step.created_by} for step in steps]
    runtime = {
        **more,
        "User": settings.user,
        "Env": [f"{key}={value}" for key, value in sorted(settings.environment.items())],
        "WorkingDir": settings.workdir,
        "Entrypoint": entrypoint(settings),
        "Cmd": None if settings.command is None else list(settings.command),
        "Labels": {
            PREFIX + "title": about.name,
            PREFIX + "description": about.description,
            **settings.labels,
            **about.labels,
        },
        "StopSignal": settings.stop_signal,
        "ExposedPorts": _with_names(more.get("ExposedPorts"), settings.ports),
        "Volumes": _with_names(more.get("Volumes"), settings.volumes),
    }
    if settings.healthcheck is not None:
        runtime["Healthcheck"] = _healthcheck(settings.healthcheck)
    return {
        **platform_of(platform),
        "created": timestamp(about.created),
        "config": {key: value for key, value in runtime.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [step.diff_id for step in steps]},
        "history": history,
    }


def _with_names(base: object, names: Sequence[str]) -> object:
    """A set as configs have it, names to empty objects, on top of that of the base."""
    if not names:
        return base
    return {**(base if isinstance(base, Mapping) else {}), **{name: {} for name in names}}


def _healthcheck(check: Healthcheck) -> Document:
    """As Docker's configs have it (moby, container.HealthConfig); times are in nanoseconds."""
    return {
        "Test": ["CMD", *check.command],
        "Interval": check.interval * _NANO,
        "Timeout": check.timeout * _NANO,
        "StartPeriod": check.start_period * _NANO,
        "Retries": check.retries,
    }


def entrypoint(settings: Config) -> list[str]:
    """The entrypoint, empty when there is none."""
    first = () if settings.init is None else (INIT, settings.init)
    return [*first, *(settings.entrypoint or ())]


def split_entrypoint(words: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """The account of `config.init` in an image's entrypoint, or None, and the rest of the entrypoint."""
    if len(words) < 2 or words[0] != INIT:
        return None, tuple(words)
    return words[1], tuple(words[2:])


def manifest(
    about: ImageDescription, configuration: Mapping[str, Any], steps: Sequence[LayerHistory]
) -> Document:
    """The manifest. `configuration` is the descriptor of the config."""
    return {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": configuration,
        "layers": [step.blob.descriptor(step.media_type) for step in steps],
        "annotations": {**about.annotations(), CODEC: about.codec},
    }


def index(about: ImageDescription, manifests: Mapping[str, Blob]) -> Document:
    """The index of an image for several platforms: platform → its manifest."""
    return {
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [
            blob.descriptor(OCI_MANIFEST, platform=platform_of(platform))
            for platform, blob in manifests.items()
        ],
        "annotations": about.annotations(),
    }


def layout_index(whole: Blob, manifests: Mapping[str, Blob], built: Mapping[str, str]) -> Document:
    """The `index.json` of a layout: the image under one name, and each platform's manifest under its own.

    Most tools need a name for one manifest (umoci, podman); the others choose from an index. `built` has the
    annotations `INPUTS`, the checksum of the image's inputs, and `VARIANT`; no document with a digest
    contains them.
    """
    platforms = [
        blob.descriptor(
            OCI_MANIFEST, platform=platform_of(platform), annotations={REF_NAME: architecture(platform)}
        )
        for platform, blob in manifests.items()
    ]
    return {
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [whole.descriptor(OCI_INDEX, annotations={REF_NAME: ALL_PLATFORMS}), *platforms],
        "annotations": dict(built),
    }
