"""The commands below the heading "maintenance"."""

from __future__ import annotations

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.options import METHODS_REQUIRED, POLICY, SET, TRUST, YES

GROUP = "maintenance"

COMMANDS = (
    Command(
        "trust",
        GROUP,
        "Show what a policy allows beyond the preset `default`, and accept it.",
        options=(
            POLICY,
            Option("yes", "", "accept without asking"),
            Option("forget", "", "accept it no longer"),
        ),
        details="Asks on a terminal, again whenever the policy says or allows something else.",
    ),
    Command(
        "account-setup",
        GROUP,
        "Make the account of the method `user`, and share the project with it.",
        options=(POLICY, YES),
        details="Without --yes it only shows what it would do, and exits with 3. Needs root, or `sudo` "
        "without a password. It leaves what exists as it is. It shares everything that the policy "
        "makes writable.",
    ),
    Command(
        "account-remove",
        GROUP,
        "Remove a project's account with its home; the project's owner gets its files.",
        options=(
            Option("project", "DIR", "the project's directory, even if it is gone (default: this one)"),
            YES,
        ),
        details="Without --yes it only shows what it would do, and exits with 3.",
    ),
    Command(
        "bridge",
        GROUP,
        "Run a rendered launcher, such as .sandbox/bwrap/launch, beside a bridge.",
        options=(POLICY, SET, TRUST),
        details="Exits as the command does. `run` does this by itself.",
        takes_command=True,
    ),
    Command(
        "prove",
        GROUP,
        "Prove the shipped presets with every method that works here; write reports.",
        options=(
            Option(
                "preset", "PRESET", "a shipped preset (default: all but those for agents)", repeatable=True
            ),
            Option(
                "method", "METHODS", "methods to prove them with, M[,M...] (default: all)", offered="method"
            ),
            METHODS_REQUIRED,
            Option(
                "output",
                "DIR",
                "directory that images are built in; reports go to its directory verify",
                written=True,
            ),
        ),
        details="Proves each preset in a new project with write access to itself. OUTPUT/verify/PRESET gets"
        " verify.json, junit.xml and verify.html. Fails as `verify` does.",
        checks="probe",
    ),
    Command(
        "completion",
        GROUP,
        "Print the completion script of a shell, with all commands and options.",
        positional=(
            Option("shell", "SHELL", "bash, zsh or fish", required=True, choices=("bash", "fish", "zsh")),
        ),
    ),
)
