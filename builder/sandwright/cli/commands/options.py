"""Options that several commands share."""

from __future__ import annotations

from sandwright.cli.commands.command import Option

POLICY = Option("policy", "FILE", "policy of the project (default: sandbox.yaml)", short="p")
PRESET = Option(
    "preset",
    "PRESET",
    "apply a preset on top of the policy, such as agent-claude; no sandbox.yaml needed",
    repeatable=True,
)
SET = Option(
    "set", "FIELD=VALUE", "override a setting, such as network.mode=none", repeatable=True, short="s"
)
TRUST = Option("trust-policy", "", "approve for this run what the policy allows beyond the preset `default`")
JSON = Option("json", "", "print one JSON object")
YES = Option("yes", "", "make the changes instead of only listing them")
FACTS = Option("facts", "FILE", "use the host recorded in this file (`sandwright facts`) instead of this one")
METHODS_REQUIRED = Option(
    "require", "METHODS", "fail if one of these methods, M[,M...], is skipped", offered="method"
)
_BUILD = "(default: $SANDWRIGHT_BUILD, else build; for a wheel ~/.local/share/sandwright)"
OUTPUT = Option("output", "DIR", f"output directory {_BUILD}", written=True)
BUILT = Option("output", "DIR", f"output directory of build-images {_BUILD}")
PLATFORM = Option("platform", "PLATFORM", "linux/amd64 or linux/arm64 (default: this machine's)")
DEFINITIONS = Option("images", "DIR", "directory of image definitions (default: the shipped ones)")
MIRROR = Option(
    "mirror", "ADDRESS", "package mirror: ADDRESS, or debian=ADDRESS,debian-security=ADDRESS (default: apt's)"
)
PACKAGES = Option(
    "packages",
    "STORE",
    "package store to ask before the mirror: HOST/REPOSITORY of a published image, or an OCI layout of it",
)
STRICT = Option("strict", "", "fail if the registry of a base image is unreachable; default: skip the image")
COMPRESSION = Option(
    "compression", "CODEC", "gzip, zstd, gzip:1 to gzip:12 or zstd:1 to zstd:19 (default: the definition's)"
)
REF = Option("ref", "REF", "reference to use, if the image has several")
NAMES = Option("name", "NAME", "an image (default: all)", repeatable=True)
IMAGE = Option(
    "image",
    "IMAGE",
    "name of a built image, or path of an OCI layout, OCI archive or Docker archive",
    required=True,
)
BUILT_NAME = Option("name", "NAME", "a built image", required=True)
REFERENCE = Option(
    "reference", "REFERENCE", "the image: HOST/REPOSITORY:TAG or HOST/REPOSITORY@DIGEST", required=True
)
REGISTRY = (
    Option("insecure", "HOST", "registry HOST[:PORT] that may be used without TLS", repeatable=True),
    Option("ca-file", "FILE", "CA certificates to trust instead of the system's", retired=("authorities",)),
    Option(
        "authfile",
        "FILE",
        "registry credentials in the format of docker and podman (default: theirs); 'none' for anonymous",
        retired=("logins",),
    ),
)
SIGSTORE = Option("trust", "FILE", "Sigstore trust configuration, JSON (default: the public services)")
