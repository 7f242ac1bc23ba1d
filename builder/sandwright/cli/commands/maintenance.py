"""The commands below the heading "maintenance"."""

from __future__ import annotations

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.options import METHODS_REQUIRED, POLICY, SET, TRUST, YES

GROUP = "maintenance"

COMMANDS = (
    Command(
        "trust",
        GROUP,
        "Show what a policy allows beyond the preset `default`, and approve it.",
        options=(
            POLICY,
            Option("yes", "", "approve without asking"),
            Option("forget", "", "withdraw the approval"),
        ),
        details="Asks on a terminal, and again whenever the policy changes.",
        example="sandwright trust",
    ),
    Command(
        "account-setup",
        GROUP,
        "Create the account for the method `user` and share the project with it.",
        options=(POLICY, YES),
        details="Without --yes, lists the changes and exits with 3. Needs root, or `sudo` without a password."
        " Keeps an existing account. Shares everything that the policy makes writable.",
        example="sandwright account-setup --yes",
    ),
    Command(
        "account-remove",
        GROUP,
        "Remove the account of a project with its home; the project's owner gets its files.",
        options=(
            Option("project", "DIR", "project directory, even if it is gone (default: the current one)"),
            YES,
        ),
        details="Without --yes, lists the changes and exits with 3.",
        example="sandwright account-remove --yes",
    ),
    Command(
        "uninstall",
        GROUP,
        "Remove the files of sandwright in your home directory: caches, state, images, approvals.",
        options=(YES,),
        details="Without --yes, lists the directories with their sizes and exits with 3. Refuses while"
        " sessions run.",
        example="sandwright uninstall --yes",
    ),
    Command(
        "bridge",
        GROUP,
        "Run a rendered launcher, such as .sandbox/bwrap/launch, together with a bridge.",
        options=(POLICY, SET, TRUST),
        details="Exits with the command's status. `run` starts its own bridge.",
        takes_command=True,
        example="sandwright bridge -- .sandbox/bwrap/launch git push",
    ),
    Command(
        "verify-presets",
        GROUP,
        "Prove the shipped presets with every method that works here, and write reports.",
        options=(
            Option("preset", "PRESET", "shipped preset (default: all but those for agents)", repeatable=True),
            Option("method", "METHODS", "methods, M[,M...] (default: all)", offered="method"),
            METHODS_REQUIRED,
            Option(
                "output",
                "DIR",
                "directory with the built images; reports are written to OUTPUT/verify",
                written=True,
            ),
        ),
        details="Proves each preset in a new writable project. Writes verify.json, junit.xml and verify.html"
        " to OUTPUT/verify/PRESET. Fails as `verify` does.",
        checks="probe",
        example="sandwright verify-presets --preset strict --method bwrap,landlock",
        retired=("prove",),
    ),
    Command(
        "completion",
        GROUP,
        "Print the completion script of a shell, with all commands and options.",
        positional=(
            Option("shell", "SHELL", "bash, zsh or fish", required=True, choices=("bash", "fish", "zsh")),
        ),
        example="sandwright completion bash >~/.local/share/bash-completion/completions/sandwright",
    ),
)
