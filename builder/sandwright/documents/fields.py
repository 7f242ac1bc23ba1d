"""The fields of the documents of images, as the programs that read them know them. Data.

Of each object the names that it may have. Behind a name is None for a value or a map with free keys, else the
fields of an object, or of each object in an array. Sources: image-spec (descriptor.md, manifest.md,
image-index.md, config.md, image-layout.md), moby's `image.Image` and `container.Config`, in-toto's Statement,
DSSE's envelope, sigstore's bundle, runtime-spec's config.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Fields: TypeAlias = Mapping[str, Any]
"""Names → None, or the fields below: Any, as mypy knows no mapping of mappings that ends."""

PLATFORM: Fields = dict.fromkeys(("architecture", "os", "os.version", "os.features", "variant", "features"))
DESCRIPTOR: Fields = {
    **dict.fromkeys(("mediaType", "digest", "size", "urls", "annotations", "data", "artifactType")),
    "platform": PLATFORM,
}
INDEX: Fields = {
    **dict.fromkeys(("schemaVersion", "mediaType", "artifactType", "annotations")),
    "manifests": DESCRIPTOR,
    "subject": DESCRIPTOR,
}
MANIFEST: Fields = {
    **dict.fromkeys(("schemaVersion", "mediaType", "artifactType", "annotations")),
    "config": DESCRIPTOR,
    "layers": DESCRIPTOR,
    "blobs": DESCRIPTOR,
    "subject": DESCRIPTOR,
}
MANIFEST_OR_INDEX: Fields = {**MANIFEST, **INDEX}

_HEALTHCHECK = dict.fromkeys(("Test", "Interval", "Timeout", "StartPeriod", "StartInterval", "Retries"))
_CONTAINER: Fields = {
    **dict.fromkeys(("Hostname", "Domainname", "User", "AttachStdin", "AttachStdout", "AttachStderr")),
    **dict.fromkeys(("ExposedPorts", "Tty", "OpenStdin", "StdinOnce", "Env", "Cmd", "ArgsEscaped", "Image")),
    **dict.fromkeys(("Volumes", "WorkingDir", "Entrypoint", "NetworkDisabled", "MacAddress", "OnBuild")),
    **dict.fromkeys(("Labels", "StopSignal", "StopTimeout", "Shell", "Memory", "MemorySwap", "CpuShares")),
    "Healthcheck": _HEALTHCHECK,
}
CONFIG: Fields = {
    **dict.fromkeys(("id", "parent", "comment", "created", "author", "architecture", "os", "os.version")),
    **dict.fromkeys(("os.features", "variant", "container", "docker_version", "Size", "throwaway")),
    "config": _CONTAINER,
    "container_config": _CONTAINER,
    "rootfs": dict.fromkeys(("type", "diff_ids")),
    "history": dict.fromkeys(("created", "created_by", "author", "comment", "empty_layer")),
}
LAYOUT: Fields = dict.fromkeys(("imageLayoutVersion",))
SAVED: Fields = dict.fromkeys(("Config", "RepoTags", "Layers", "Parent", "LayerSources"))
"""A row of `manifest.json` in an archive of `docker save`."""

_RESOURCE = dict.fromkeys(
    ("name", "uri", "digest", "content", "downloadLocation", "mediaType", "annotations")
)
STATEMENT: Fields = {
    **dict.fromkeys(("_type", "predicateType")),
    "subject": _RESOURCE,
    "predicate": {
        "buildDefinition": {
            **dict.fromkeys(("buildType", "externalParameters", "internalParameters")),
            "resolvedDependencies": _RESOURCE,
        },
        "runDetails": {
            "builder": dict.fromkeys(("id", "version", "builderDependencies")),
            "metadata": dict.fromkeys(("invocationId", "startedOn", "finishedOn")),
            "byproducts": _RESOURCE,
        },
    },
}
ENVELOPE: Fields = {
    **dict.fromkeys(("payload", "payloadType")),
    "signatures": dict.fromkeys(("sig", "keyid", "cert", "extension")),
}
BUNDLE: Fields = {
    "mediaType": None,
    "verificationMaterial": {
        "publicKey": dict.fromkeys(("hint",)),
        "certificate": dict.fromkeys(("rawBytes",)),
        "x509CertificateChain": {"certificates": dict.fromkeys(("rawBytes",))},
        "tlogEntries": None,
        "timestampVerificationData": None,
    },
    "dsseEnvelope": ENVELOPE,
    "messageSignature": None,
}
RUNTIME: Fields = {
    **dict.fromkeys(("ociVersion", "hostname", "domainname", "annotations", "linux")),
    "process": {
        **dict.fromkeys(
            ("terminal", "consoleSize", "user", "args", "commandLine", "env", "cwd", "capabilities")
        ),
        **dict.fromkeys(("rlimits", "noNewPrivileges", "apparmorProfile", "oomScoreAdj", "selinuxLabel")),
        **dict.fromkeys(("scheduler", "ioPriority", "execCPUAffinity")),
    },
    "root": dict.fromkeys(("path", "readonly")),
    "mounts": dict.fromkeys(("destination", "type", "source", "options", "uidMappings", "gidMappings")),
    "hooks": dict.fromkeys(
        ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
    ),
}
"""A runtime bundle's config.json, without the parts of one system."""

OURS: Fields = {}
"""Documents that only sandwright reads: no names but those that it asks for."""
