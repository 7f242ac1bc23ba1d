"""The commands below the heading "release"."""

from __future__ import annotations

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.options import (
    BUILT_NAME,
    DEFINITIONS,
    MIRROR,
    OUTPUT,
    PLATFORM,
    REFERENCE,
    REGISTRY,
    SIGSTORE,
)

GROUP = "release"

COMMANDS = (
    Command(
        "sbom",
        GROUP,
        "Write the SBOM of a built image: every package, and every file.",
        positional=(BUILT_NAME,),
        options=(
            Option(
                "format", "FORMAT", "cyclonedx or spdx (default: cyclonedx)", choices=("cyclonedx", "spdx")
            ),
            PLATFORM,
            Option(
                "to",
                "FILE",
                "file to write, or to check; '-' for standard output (default: in OUTPUT/release/NAME)",
                written=True,
            ),
            Option(
                "check", "", "change nothing; compare the existing SBOM with the built image, file for file"
            ),
            DEFINITIONS,
            OUTPUT,
            MIRROR,
        ),
        checks="file",
        checks_if="check",
    ),
    Command(
        "prove-image",
        GROUP,
        "Prove sandboxes on a built image, and keep the matrix as evidence about its digest.",
        positional=(BUILT_NAME,),
        options=(
            Option(
                "method",
                "METHODS",
                "methods that run on the image's own root: oci, gvisor, or both (default: oci)",
            ),
            Option(
                "policy",
                "FILE",
                "a policy to prove on it (default: one with a writable project, and no network)",
            ),
            OUTPUT,
        ),
        checks="probe",
    ),
    Command(
        "publish",
        GROUP,
        "Publish built images with SBOM, provenance, evidence and signature.",
        positional=(
            Option(
                "image",
                "IMAGE",
                "a built image; the last word is HOST/PREFIX, unless --to names it",
                repeatable=True,
            ),
        ),
        options=(
            Option("to", "HOST/PREFIX", "where to: each image gets its name below it"),
            Option(
                "key",
                "KEY",
                "private key: a PEM file (password in SANDWRIGHT_KEY_PASSWORD), or a key service's URI",
            ),
            Option("public-key", "FILE", "the key's public half or certificate; a key service needs it"),
            Option(
                "keyless",
                "",
                "sign by an identity, with a short-lived certificate and a public log, without a key",
            ),
            Option("token", "FILE", "the identity's token (default: the CI system's)"),
            SIGSTORE,
            Option("tag", "TAG", "a tag (default: latest)", repeatable=True),
            Option(
                "require",
                "RUNTIME",
                "a runtime under which its smoke tests must have passed",
                repeatable=True,
            ),
            Option(
                "matrix",
                "METHOD",
                "a method by which prove-image must have proved it (default: any; none: no proof, for an "
                "image that no sandbox runs on)",
                repeatable=True,
            ),
            Option("builder", "URI", "who builds, for the provenance (default: urn:sandwright:builder)"),
            Option("dry-run", "", "only show what would be done"),
            DEFINITIONS,
            OUTPUT,
            MIRROR,
            *REGISTRY,
        ),
        details="Moves tags last. Sends nothing of an image whose smoke tests or matrix were not green for "
        "its very digest.",
    ),
    Command(
        "verify-image",
        GROUP,
        "Check a published image: signature, provenance, SBOM, evidence, every byte.",
        positional=(REFERENCE,),
        options=(
            Option("key", "FILE", "public key, or certificate, in PEM"),
            Option("identity", "WHO", "who must have signed without a key: an address, or a workflow's URI"),
            Option("issuer", "URL", "who vouched for the identity: the URL of its login"),
            SIGSTORE,
            Option(
                "name", "NAME", "the image's name in its signature (default: the last part of the repository)"
            ),
            Option("rebuild", "", "make it again from its published sources, and compare"),
            Option("platform", "PLATFORM", "a platform to make again (default: all)", repeatable=True),
            MIRROR,
            *REGISTRY,
        ),
        checks="part",
    ),
)
