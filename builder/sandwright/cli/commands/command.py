"""The shape of a command and of its options: what parsing, help, completion and Invoke's tasks read."""

from __future__ import annotations


class Option:
    """An option of a command, or one of its positional arguments.

    `metavar` names the value; an option without one is a flag. `repeatable` options may be given several
    times, and a repeatable positional argument takes all words that are left. A flag with `negatable` is on
    by default, and `--no-NAME` turns it off. `choices` are the only values that are accepted. `offered` are
    values that completion offers beside others that exist. `more` lets further values follow the first one
    without the option's name: words that begin with `/`, or words that hold `=`. `written` is a file or
    directory that the command makes or adds to: no link on the way to it is followed in a project.
    """

    __slots__ = (
        *("choices", "help", "metavar", "more", "name"),
        *("negatable", "offered", "repeatable", "required", "short", "written"),
    )

    def __init__(
        self,
        name: str,
        metavar: str,
        help: str,  # noqa: A002 - what it is
        *,
        repeatable: bool = False,
        short: str = "",
        negatable: bool = False,
        required: bool = False,
        choices: tuple[str, ...] = (),
        offered: str = "",
        more: str = "",
        written: bool = False,
    ) -> None:
        self.name = name
        self.metavar = metavar
        self.help = help
        self.repeatable = repeatable
        self.short = short
        self.negatable = negatable
        self.required = required
        self.choices = choices
        self.offered = offered
        self.more = more
        self.written = written

    @property
    def flag(self) -> str:
        """The option as a command line spells it."""
        return f"-{self.name}" if len(self.name) == 1 else f"--{self.name}"

    @property
    def spelled(self) -> str:
        """The same with the name of its value: `--policy FILE`, `--[no-]smoke`."""
        flag = f"--[no-]{self.name}" if self.negatable else self.flag
        return f"{flag} {self.metavar}".rstrip()

    @property
    def keyword(self) -> str:
        """The parameter of the command's function that it fills."""
        return self.name.replace("-", "_")

    @property
    def about(self) -> str:
        """Its help, with whether it may be repeated."""
        return self.help + "; repeatable" * (self.repeatable and bool(self.metavar))

    def values(self) -> tuple[str, ...]:
        """What completion offers as a value; nothing where that is files, or anything."""
        if self.offered == "method":
            from sandwright.policy.names import METHODS  # noqa: PLC0415 - most commands need none

            return METHODS
        return self.choices


class Command:
    """A command: `sandwright NAME`, and `invoke NAME` in a checkout.

    `details` are sentences that its help has below the first line. `takes_command` says that words behind
    `--` are a command for it to run, or to look at. `checks` is the kind of thing that it checks, empty for
    none: it fails when it has checked nothing. With `checks_if` it does so only where that flag is on.
    """

    __slots__ = (
        *("checks", "checks_if", "details", "group", "help", "name"),
        *("options", "positional", "takes_command"),
    )

    def __init__(
        self,
        name: str,
        group: str,
        help: str,  # noqa: A002 - what it is
        *,
        positional: tuple[Option, ...] = (),
        options: tuple[Option, ...] = (),
        details: str = "",
        takes_command: bool = False,
        checks: str = "",
        checks_if: str = "",
    ) -> None:
        self.name = name
        self.group = group
        self.help = help
        self.positional = positional
        self.options = options
        self.details = details
        self.takes_command = takes_command
        self.checks = checks
        self.checks_if = checks_if

    @property
    def arguments(self) -> tuple[Option, ...]:
        """Its positional arguments, each of which may be written as an option too, and its options."""
        return (*self.positional, *self.options)

    def usage(self) -> str:
        """How it is written: `sandwright NAME [OPTIONS] WORDS`."""
        words = [_word(each) for each in self.positional] + ["[-- COMMAND ...]"] * self.takes_command
        return " ".join(["sandwright", self.name, *["[OPTIONS]"] * bool(self.options), *words])


def _word(argument: Option) -> str:
    text = argument.metavar + " ..." * argument.repeatable
    return text if argument.required else f"[{text}]"
