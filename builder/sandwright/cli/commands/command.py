"""The data of a command and its options, for parsing, help, completion and Invoke's tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandwright.lazy import load


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """An option of a command, or one of its positional arguments.

    `metavar` names the value; an option without one is a flag. `repeatable` options may be given several
    times, and a repeatable positional argument takes all words that are left. A flag with `negatable` is on
    by default, and `--no-NAME` turns it off. `choices` are the only values that are accepted. `offered` are
    values that completion offers beside others that exist. `more` lets further values follow the first one
    without the option's name: words that begin with `/`, or words that hold `=`. `written` is a file or
    directory that the command makes or adds to: no link on the way to it is followed in a project. `retired`
    are names of earlier releases, which work with a warning for one release.
    """

    name: str
    metavar: str
    help: str
    repeatable: bool = field(default=False, kw_only=True)
    short: str = field(default="", kw_only=True)
    negatable: bool = field(default=False, kw_only=True)
    required: bool = field(default=False, kw_only=True)
    choices: tuple[str, ...] = field(default=(), kw_only=True)
    offered: str = field(default="", kw_only=True)
    more: str = field(default="", kw_only=True)
    written: bool = field(default=False, kw_only=True)
    retired: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def flag(self) -> str:
        """The option as a command line spells it."""
        return f"-{self.name}" if len(self.name) == 1 else f"--{self.name}"

    @property
    def spelled(self) -> str:
        """The option with the name of its value: `--policy FILE`, `--[no-]smoke`."""
        flag = f"--[no-]{self.name}" if self.negatable else self.flag
        return f"{flag} {self.metavar}".rstrip()

    @property
    def keyword(self) -> str:
        """The parameter of the command's function that it fills."""
        return self.name.replace("-", "_")

    @property
    def about(self) -> str:
        """The help text, which says whether the option may be repeated."""
        return self.help + "; repeatable" * (self.repeatable and bool(self.metavar))

    def values(self) -> tuple[str, ...]:
        """The values that completion offers; empty for files and free text."""
        if self.offered == "method":
            methods: tuple[str, ...] = load("sandwright.policy.names:METHODS")
            return methods
        return self.choices


@dataclass(frozen=True, slots=True, eq=False)
class Command:
    """A command: `sandwright NAME`, and `invoke NAME` in a checkout.

    `details` are sentences that its help has below the first line. `takes_command` says that words behind
    `--` are a command for it to run, or to look at. `checks` is the kind of thing that it checks, empty for
    none: it fails when it has checked nothing. With `checks_if` it does so only where that flag is on.
    `example` is a whole command line, which its help shows. `retired` are names of earlier releases.
    """

    name: str
    group: str
    help: str
    positional: tuple[Option, ...] = field(default=(), kw_only=True)
    options: tuple[Option, ...] = field(default=(), kw_only=True)
    details: str = field(default="", kw_only=True)
    takes_command: bool = field(default=False, kw_only=True)
    checks: str = field(default="", kw_only=True)
    checks_if: str = field(default="", kw_only=True)
    example: str = field(kw_only=True)
    retired: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def arguments(self) -> tuple[Option, ...]:
        """Its positional arguments, each of which may be written as an option too, and its options."""
        return (*self.positional, *self.options)

    def usage(self) -> str:
        """The synopsis: `sandwright NAME [OPTIONS] WORDS`."""
        words = [_usage_word(each) for each in self.positional] + ["[-- COMMAND ...]"] * self.takes_command
        return " ".join(["sandwright", self.name, *["[OPTIONS]"] * bool(self.options), *words])


def _usage_word(argument: Option) -> str:
    text = argument.metavar + " ..." * argument.repeatable
    return text if argument.required else f"[{text}]"
