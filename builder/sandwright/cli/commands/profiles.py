"""The commands below the heading "profiles"."""

from __future__ import annotations

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.options import FACTS, JSON, POLICY, SET

GROUP = "profiles"

PARAMETER = Option("D", "KEY=VALUE", "a parameter of a Seatbelt profile", repeatable=True, more="=")

COMMANDS = (
    Command(
        "render",
        GROUP,
        "Render the artifacts of a policy, with a manifest of their digests.",
        options=(
            POLICY,
            Option(
                "method",
                "METHOD",
                "a method to render (default: the policy's)",
                repeatable=True,
                offered="method",
            ),
            Option(
                "out", "DIR", "directory; each method has its own below it (default: .sandbox)", written=True
            ),
            FACTS,
            SET,
            Option("check", "", "write nothing; fail when the files differ from what would be rendered"),
            Option("diff", "", "write nothing; show what would change"),
        ),
        checks="artifact",
        checks_if="check",
    ),
    Command(
        "lint",
        GROUP,
        "Show what is likely wrong in a profile or policy; fail on an error.",
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
    ),
    Command(
        "facts",
        GROUP,
        "Print a policy's facts about this host as JSON, to render for it elsewhere.",
        options=(POLICY, SET),
    ),
    Command(
        "schema",
        GROUP,
        "Print the JSON Schema of a document, for editors.",
        positional=(
            Option("document", "DOCUMENT", "policy or image", required=True, choices=("policy", "image")),
        ),
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
                "the operation's object: path=/etc/hosts, remote=tcp:localhost:80, …",
                repeatable=True,
                more="=",
            ),
            PARAMETER,
            Option("symlink", "FROM=TO", "a symbolic link of the host", repeatable=True, more="="),
            Option("include", "DIR", "a directory with profiles to import, as a Mac's", repeatable=True),
            Option(
                "fragment",
                "",
                "take it as part of a profile: assume (version 1) and (deny default) before it",
            ),
            Option(
                "batch",
                "FILE",
                "questions as JSON lines: a file, or - for standard input; in place of profile and operation",
            ),
            JSON,
        ),
    ),
    Command(
        "seccomp-eval",
        GROUP,
        "Show what a seccomp profile does with a system call, and by which rule.",
        positional=(
            Option("profile", "PROFILE", "the profile, in the format of Docker, Podman or OCI"),
            Option("syscall", "SYSCALL", "the system call, by name or number"),
            Option("argument", "ARGUMENT", "its arguments in order, decimal or 0x…", repeatable=True),
        ),
        options=(
            Option("arch", "ARCH", "amd64, arm64, or i386 and the like for a second ABI (default: amd64)"),
            Option("cap", "CAP_X", "a capability of the container", repeatable=True),
            JSON,
        ),
    ),
    Command(
        "shim-check",
        GROUP,
        "Show the host's side of a shim's call, without running it: `shim-check -- git push`.",
        options=(POLICY, SET),
        details="Without a call: what each shim lets through. Fails where the bridge would refuse the call,"
        " for what the policy says, a remote that it does not know, or a file that it keeps from "
        "the sandbox.",
        takes_command=True,
    ),
)
