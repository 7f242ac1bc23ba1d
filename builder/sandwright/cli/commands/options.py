"""Options that several commands share."""

from __future__ import annotations

from sandwright.cli.commands.command import Option

POLICY = Option("policy", "FILE", "the project's policy (default: sandbox.yaml)", short="p")
SET = Option(
    "set", "FIELD=VALUE", "a setting of this run, such as network.mode=none", repeatable=True, short="s"
)
TRUST = Option("trust-policy", "", "accept what the policy loosens of the preset `default`, this once")
JSON = Option("json", "", "answer as one JSON object")
YES = Option("yes", "", "do it, instead of only showing what would be done")
FACTS = Option(
    "facts", "FILE", "use the host that this JSON file describes (`sandwright facts`), not this one"
)
METHODS_REQUIRED = Option(
    "require", "METHODS", "methods, M[,M...], of which a skip is a failure", offered="method"
)
OUTPUT = Option("output", "DIR", "directory for everything that is made (default: build)", written=True)
BUILT = Option("output", "DIR", "directory that build-images wrote to (default: build)")
PLATFORM = Option("platform", "PLATFORM", "linux/amd64 or linux/arm64 (default: this machine's)")
DEFINITIONS = Option("images", "DIR", "directory of image definitions (default: those that ship)")
MIRROR = Option(
    "mirror", "ADDRESS", "package mirror: ADDRESS, or debian=ADDRESS,debian-security=ADDRESS (default: apt's)"
)
STRICT = Option(
    "strict", "", "fail when the registry of a base can't be reached, instead of leaving the image out"
)
REF = Option("ref", "REF", "which of the image's references, where it has several")
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
    Option(
        "insecure", "HOST", "a registry, HOST[:PORT], to speak to without TLS if need be", repeatable=True
    ),
    Option("authorities", "FILE", "certificates to trust in place of the machine's"),
    Option(
        "logins", "FILE", "logins, as docker and podman write them (default: theirs); 'none' for no login"
    ),
)
SIGSTORE = Option("trust", "FILE", "Sigstore's trust configuration in JSON (default: the public services)")
