"""The `sandwright` program: Invoke's, with our tasks and two kindnesses in reading the command line."""

from __future__ import annotations

from collections.abc import Sequence

from invoke.program import Program

import sandwright

REPEATED = {"bundle": ("--minimal", "--keep"), "sbpl-eval": ("--resource", "-D", "--symlink")}
"""Options that may be followed by several values, by task."""

TRAILING = {"seccomp-eval": "--argument"}
"""Tasks whose words beyond the named positions are values of an option."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; exits."""
    import sys  # noqa: PLC0415

    from sandwright.cli.tasks import namespace  # noqa: PLC0415

    words = list(sys.argv if argv is None else argv)
    program = Program(
        version=sandwright.__version__, namespace=namespace, name="sandwright", binary="sandwright"
    )
    program.run([words[0], *spread(words[1:])])


def spread(words: Sequence[str]) -> list[str]:
    """Write an option's several values as the option given several times: `-D a=1 b=2` is `-D a=1 -D b=2`.

    Only for the options of `REPEATED`; a value never begins with a dash. Words behind `--` stay as they are.
    """
    task = next((word for word in words if not word.startswith("-")), "")
    repeated = REPEATED.get(task, ())
    out: list[str] = []
    option = ""
    values = 0
    for index, word in enumerate(words):
        if word == "--":
            return [*out, *words[index:]]
        if word.startswith("-") and word != "-":
            option, values = (word if word in repeated else ""), 0
        elif option:
            if values:
                out.append(option)
            values += 1
        out.append(word)
    return out
