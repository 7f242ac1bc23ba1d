"""The commands below the heading "release"."""

from __future__ import annotations

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.options import (
    BUILT_NAME,
    DEFINITIONS,
    MIRROR,
    OUTPUT,
    PACKAGES,
    PLATFORM,
    REGISTRY,
    SIGSTORE,
)

GROUP = "release"

COMMANDS = (
    Command(
        "sbom",
        GROUP,
        "Write the SBOM of a built image, with all packages and files.",
        positional=(BUILT_NAME,),
        options=(
            Option(
                "format", "FORMAT", "cyclonedx or spdx (default: cyclonedx)", choices=("cyclonedx", "spdx")
            ),
            PLATFORM,
            Option(
                "to",
                "FILE",
                "file to write or to check; '-' for standard output (default: in OUTPUT/release/NAME)",
                written=True,
            ),
            Option("check", "", "change nothing; compare the existing SBOM with the built image"),
            Option(
                "diff",
                "OLD",
                "print which packages NAME adds, removes and changes since OLD, as Markdown; both are an"
                " SBOM, an OCI layout, an archive or the name of a built image",
            ),
            Option("json", "", "print the differences as JSON"),
            DEFINITIONS,
            OUTPUT,
            MIRROR,
        ),
        checks="file",
        checks_if="check",
        example="sandwright sbom debian --format spdx",
    ),
    Command(
        "attest-image",
        GROUP,
        "Prove sandboxes on a built image and save the results as evidence about its digest.",
        positional=(BUILT_NAME,),
        options=(
            Option(
                "method",
                "METHODS",
                "methods whose root file system is the image: oci, gvisor, or both (default: oci)",
            ),
            Option(
                "policy",
                "FILE",
                "policy to prove (default: a writable project and no network)",
            ),
            OUTPUT,
        ),
        details="`publish` requires and publishes the evidence.",
        checks="probe",
        example="sandwright attest-image debian --method oci,gvisor",
        retired=("prove-image",),
    ),
    Command(
        "publish",
        GROUP,
        "Publish built images with SBOM, provenance, evidence and signature.",
        positional=(
            Option(
                "image",
                "IMAGE",
                "a built image; the last word is HOST/PREFIX unless --to is given",
                repeatable=True,
            ),
        ),
        options=(
            Option("to", "HOST/PREFIX", "destination; each image gets its name below it"),
            Option(
                "key",
                "KEY",
                "private key: a PEM file (password in SANDWRIGHT_KEY_PASSWORD) or the URI of a KMS",
            ),
            Option("public-key", "FILE", "public key or certificate; required for a KMS"),
            Option(
                "keyless",
                "",
                "sign with an OIDC identity, a short-lived certificate and a transparency log",
            ),
            Option("token", "FILE", "OIDC identity token (default: the CI system's)"),
            SIGSTORE,
            Option("tag", "TAG", "tag (default: latest)", repeatable=True),
            Option(
                "require",
                "RUNTIME",
                "runtime under which the smoke tests must have passed",
                repeatable=True,
            ),
            Option(
                "matrix",
                "METHOD",
                "method with which attest-image must have proved it (default: any; none: no proof, for an"
                " image that no sandbox runs on)",
                repeatable=True,
            ),
            Option("builder", "URI", "builder ID in the provenance (default: urn:sandwright:builder)"),
            Option(
                "packages", "", "also publish the packages, for rebuilds when no mirror has them any more"
            ),
            Option(
                "attestations",
                "",
                "also add SBOM and provenance to the index, as BuildKit does, for docker buildx imagetools",
            ),
            Option("dry-run", "", "only list what would be published"),
            DEFINITIONS,
            OUTPUT,
            MIRROR,
            *REGISTRY,
        ),
        details="Moves tags last. Refuses an image unless its smoke tests and proof passed for exactly this"
        " digest.",
        example="sandwright publish debian registry.example/team --key cosign.key",
    ),
    Command(
        "verify-image",
        GROUP,
        "Verify a published image: signature, provenance, SBOM, evidence, every byte.",
        positional=(
            Option(
                "reference",
                "REFERENCE",
                "the image: HOST/REPOSITORY:TAG, HOST/REPOSITORY@DIGEST, or an OCI layout with --name",
                required=True,
            ),
        ),
        options=(
            Option("key", "FILE", "public key or certificate, PEM"),
            Option(
                "identity",
                "WHO",
                "expected identity of a keyless signature: email address or workflow URI",
            ),
            Option("issuer", "URL", "expected OIDC issuer of the identity"),
            SIGSTORE,
            Option("name", "NAME", "image name in the signature (default: the last part of the repository)"),
            Option("rebuild", "", "rebuild the image from its published sources and compare"),
            Option("platform", "PLATFORM", "platform to rebuild (default: all)", repeatable=True),
            MIRROR,
            PACKAGES,
            *REGISTRY,
        ),
        checks="part",
        example="sandwright verify-image registry.example/team/debian:12 --key cosign.pub",
    ),
)
