"""The commands below the heading "images"."""

from __future__ import annotations

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.options import (
    BUILT,
    BUILT_NAME,
    DEFINITIONS,
    IMAGE,
    MIRROR,
    NAMES,
    OUTPUT,
    PLATFORM,
    REF,
    REFERENCE,
    REGISTRY,
    STRICT,
)

GROUP = "images"

COMMANDS = (
    Command(
        "setup",
        GROUP,
        "Install what comes from the distribution, after listing it; needs root or sudo.",
        options=(
            Option("group", "GROUP", "build, smoke or test (default: build and smoke)", repeatable=True),
            Option("dry-run", "", "only show what would be done"),
        ),
    ),
    Command(
        "lock-images",
        GROUP,
        "Resolve the images' packages with apt, and their bases; write the lock files.",
        positional=(NAMES,),
        options=(
            DEFINITIONS,
            MIRROR,
            Option("check", "", "change nothing; fail when a lock is missing or does not fit its definition"),
            STRICT,
            *REGISTRY,
        ),
        checks="lock",
        checks_if="check",
    ),
    Command(
        "lock-diff",
        GROUP,
        "Print what the locks of images change, package by package, in Markdown.",
        positional=(
            Option(
                "before", "BEFORE", "the former directory of images, as in another checkout", required=True
            ),
        ),
        options=(Option("images", "DIR", "the present directory of images (default: images)"),),
    ),
    Command(
        "build-images",
        GROUP,
        "Build images for all platforms, and smoke-test them under every runtime.",
        positional=(NAMES,),
        options=(
            Option("platform", "PLATFORM", "linux/amd64 or linux/arm64 (default: both)", repeatable=True),
            DEFINITIONS,
            OUTPUT,
            MIRROR,
            Option("frozen", "", "fail, instead of locking again, when a lock is stale or a package is gone"),
            Option("verify", "", "compare every existing blob with its digest"),
            Option("smoke", "", "smoke-test every image under every runtime", negatable=True),
            Option("runtime", "RUNTIME", "a runtime to start images under (default: all)", repeatable=True),
            Option("require", "RUNTIME", "a runtime that must be there", repeatable=True),
            Option(
                "again",
                "",
                "repeat smoke tests that passed and have not changed; with --engine: without its cache",
            ),
            STRICT,
            Option("dry-run", "", "only show what would be built, and why"),
            Option(
                "engine",
                "ENGINE",
                "docker, podman or buildah: build there from Dockerfiles, by default for this platform alone",
                choices=("docker", "podman", "buildah"),
            ),
            Option(
                "builder",
                "IMAGE",
                "with --engine: image for the first stages, pinned as name@sha256:… (default: ours)",
            ),
            Option("compare", "", "with --engine: compare every file with the same image built without one"),
            *REGISTRY,
        ),
        checks="image",
        checks_if="smoke",
    ),
    Command(
        "export-image",
        GROUP,
        "Write a built image as one archive that `docker load` and `podman load` take.",
        positional=(BUILT_NAME,),
        options=(
            Option("to", "FILE", "file to write (default: NAME-ARCHITECTURE.tar)", written=True),
            PLATFORM,
            Option(
                "reference",
                "REFERENCE",
                "the image's name once it is loaded (default: sandwright/NAME:latest)",
            ),
            Option(
                "output",
                "DIR",
                "directory that build-images wrote to (default: $SANDWRIGHT_BUILD, else build)",
            ),
        ),
    ),
    Command(
        "dockerfile",
        GROUP,
        "Render the Dockerfile of an image; with --to, everything that it needs for a build.",
        positional=(Option("name", "NAME", "the image", required=True),),
        options=(
            PLATFORM,
            Option(
                "to",
                "DIR",
                "directory for the whole context with packages (default: print the Dockerfile alone)",
                written=True,
            ),
            DEFINITIONS,
            Option("builder", "IMAGE", "image for the first stages, pinned as name@sha256:… (default: ours)"),
            MIRROR,
            Option("frozen", "", "fail, instead of locking again, when a lock is stale"),
        ),
    ),
    Command(
        "push-image",
        GROUP,
        "Push an image by digest, read it back, compare it, and tag it last.",
        positional=(IMAGE, Option("reference", "REFERENCE", "where to: HOST/REPOSITORY:TAG", required=True)),
        options=(
            Option("tag", "TAG", "one more tag", repeatable=True),
            Option(
                "mount-from",
                "REPOSITORY",
                "a repository of the same registry that has layers of it",
                repeatable=True,
            ),
            Option(
                "ref", "REF", "which of the image's references, where it has several (default: all platforms)"
            ),
            BUILT,
            *REGISTRY,
        ),
    ),
    Command(
        "pull-image",
        GROUP,
        "Pull an image into an OCI layout, and compare every part with its digest.",
        positional=(REFERENCE,),
        options=(
            Option(
                "to", "DIR", "directory for the OCI layout (default: OUTPUT/pulled/REPOSITORY)", written=True
            ),
            Option("platform", "PLATFORM", "a platform, as linux/amd64 (default: all)", repeatable=True),
            OUTPUT,
            *REGISTRY,
        ),
    ),
    Command(
        "check-image",
        GROUP,
        "Audit an image: documents, layers, files, configuration, secrets, size.",
        positional=(IMAGE,),
        options=(
            Option(
                "platform",
                "PLATFORM",
                "one platform, as linux/amd64, with all of its variants (default: all)",
            ),
            REF,
            BUILT,
            Option("budget", "SIZE", "limit of its packed layers, such as 80MB"),
            Option(
                "accept",
                "RULE=REASON",
                "accept a finding: RULE=REASON or RULE:PATTERN=REASON",
                repeatable=True,
            ),
            Option("structure", "FILE", "a file of container-structure-test", repeatable=True),
            Option(
                "runtime",
                "RUNTIMES",
                "runtimes to run its commands under, R[,R...] (default: all that work here)",
            ),
            Option("json", "FILE", "write the findings to it", written=True),
            Option("sarif", "FILE", "write them to it as SARIF 2.1.0", written=True),
            Option("junit", "FILE", "write them to it as JUnit XML", written=True),
        ),
        details="Fails on an error that --accept does not name, and when no image fits.",
        checks="image",
    ),
    Command(
        "bundle",
        GROUP,
        "Make an OCI runtime bundle of an image; a COMMAND replaces the image's own.",
        positional=(IMAGE,),
        options=(
            PLATFORM,
            REF,
            Option(
                "bundle",
                "DIR",
                "directory for the bundle (default: OUTPUT/bundles/NAME-ARCHITECTURE)",
                written=True,
            ),
            OUTPUT,
            Option("minimal", "PROGRAM", "keep only what these programs need", repeatable=True, more="/"),
            Option(
                "keep",
                "PATTERN",
                "with --minimal: a path or pattern to keep as well",
                repeatable=True,
                more="/",
            ),
            Option(
                "drop", "PATTERN", "with --minimal: a path or pattern not to keep", repeatable=True, more="/"
            ),
            Option(
                "trace",
                "COMMAND",
                "with --minimal: a command line to run in the full root, to keep what it opens",
                repeatable=True,
            ),
            Option(
                "dependencies",
                "",
                "with --minimal: keep the data of packages that the programs' packages depend on",
            ),
            Option("writable", "", "give the bundle a writable root of its own"),
            Option(
                "init",
                "",
                "give it the capabilities by which a first process that starts as root drops to a user",
            ),
        ),
        takes_command=True,
    ),
    Command(
        "prove-mapping",
        GROUP,
        "Prove which user an image runs as under every runtime, and who owns new files.",
        positional=(
            Option(
                "image",
                "IMAGE",
                "an image with `config.init`, by name, or path of its OCI layout",
                required=True,
            ),
        ),
        options=(
            Option("runtime", "RUNTIMES", "runtimes, R[,R...] (default: runc, runsc, docker and podman)"),
            BUILT,
        ),
        details="For images with `config.init`. Needs root. Fails when a start has another outcome than "
        "expected.",
        checks="start",
    ),
)
