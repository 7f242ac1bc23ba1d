"""The commands below the heading "profiles"."""

from __future__ import annotations

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.options import FACTS, JSON, POLICY, SET

GROUP = "profiles"

PARAMETER = Option("D", "KEY=VALUE", "parameter of a Seatbelt profile", repeatable=True, more="=")

COMMANDS = (
    Command(
        "render",
        GROUP,
        "Render the artifacts of a policy and a manifest of their digests.",
        options=(
            POLICY,
            Option(
                "method",
                "METHOD",
                "method to render (default: the policy's)",
                repeatable=True,
                offered="method",
            ),
            Option(
                "out",
                "DIR",
                "directory, with one subdirectory for each method (default: .sandbox)",
                written=True,
            ),
            FACTS,
            SET,
            Option("check", "", "write nothing; fail if the files are stale"),
            Option("diff", "", "write nothing; show what would change"),
        ),
        checks="artifact",
        checks_if="check",
        example="sandwright render --method docker --check",
    ),
    Command(
        "lint",
        GROUP,
        "Report likely mistakes in a profile or policy; fail on an error.",
        positional=(
            Option(
                "file",
                "FILE",
                "a Seatbelt (.sb) or seccomp profile (.json), or a policy (.yaml; default: sandbox.yaml)",
                repeatable=True,
            ),
        ),
        options=(FACTS, PARAMETER),
        checks="file",
        example="sandwright lint sandbox.yaml",
    ),
    Command(
        "facts",
        GROUP,
        "Record the facts of this host that a policy depends on, as JSON, to render for it elsewhere.",
        options=(POLICY, SET),
        example="sandwright facts >host.json; sandwright render --facts host.json",
    ),
    Command(
        "schema",
        GROUP,
        "Print the JSON Schema of a document for editors.",
        positional=(
            Option("document", "DOCUMENT", "policy or image", required=True, choices=("policy", "image")),
        ),
        example="sandwright schema policy >policy.schema.json",
    ),
    Command(
        "sbpl-eval",
        GROUP,
        "Show whether a Seatbelt profile allows an operation, and which rule decides.",
        positional=(
            Option("profile", "PROFILE", "the Seatbelt profile"),
            Option("operation", "OPERATION", "the operation, such as file-read-data"),
        ),
        options=(
            Option(
                "resource",
                "KEY=VALUE",
                "object of the operation: path=/etc/hosts, remote=tcp:localhost:80, …",
                repeatable=True,
                more="=",
            ),
            PARAMETER,
            Option("symlink", "FROM=TO", "symbolic link on the host", repeatable=True, more="="),
            Option("include", "DIR", "directory of profiles to import", repeatable=True),
            Option(
                "fragment",
                "",
                "treat it as a fragment: prepend (version 1) and (deny default)",
            ),
            Option(
                "batch",
                "FILE",
                "queries as JSON lines, instead of PROFILE and OPERATION: a file, or - for standard input",
            ),
            JSON,
        ),
        example="sandwright sbpl-eval profile.sb file-read-data --resource path=/etc/hosts",
    ),
    Command(
        "seccomp-eval",
        GROUP,
        "Show what a seccomp profile does with a system call, and which rule decides.",
        positional=(
            Option("profile", "PROFILE", "the profile, in the format of Docker, Podman or OCI"),
            Option("syscall", "SYSCALL", "the system call, by name or number"),
            Option("argument", "ARGUMENT", "its arguments in order, decimal or 0x…", repeatable=True),
        ),
        options=(
            Option("arch", "ARCH", "amd64, arm64, or a second ABI such as i386 (default: amd64)"),
            Option("cap", "CAP_X", "capability of the container", repeatable=True),
            JSON,
        ),
        example="sandwright seccomp-eval seccomp.json clone 0x10000000",
    ),
    Command(
        "shim-eval",
        GROUP,
        "Show what the bridge would do with a shim's call, without running it.",
        options=(POLICY, SET),
        details="Without a call: lists what each shim allows. Fails if the bridge would refuse the call: for"
        " a rule of the policy, an unknown remote, or a file that is hidden from the sandbox.",
        takes_command=True,
        example="sandwright shim-eval -- git push origin main",
        retired=("shim-check",),
    ),
)
