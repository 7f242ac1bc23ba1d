"""The argument grammar: decides which command lines pass to a shim's program.

A call passes if an entry of `credentials.shims.<program>.allow` covers it, and the program's *profile* knows
every word of it. An entry is words between blanks: `auth status` covers exactly these arguments; `pr *`
covers all calls that begin with `pr`. A `*` never means "anything": options that a profile doesn't list are
refused, and so are abbreviated options, options written together (`-dw`), and options before the sub-command.

A call is not passed on as it came. `AllowedCall.words` is built from the parsed call: the sub-command, each
option by its long name with its value after `=`, `--`, the operands. So it doesn't matter how the program
would have parsed the original.

Programs without a profile get the generic grammar: the entry's own words, and for `*` further plain words,
which begin with a letter or digit and hold nothing but letters, digits and `_.,+-`: no option, no path, no
address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sandwright.bridge.arg_types import Kind, WorkspaceFile, value_fault
from sandwright.errors import RenderError
from sandwright.policy.values import ShimCommand, is_plain_word

MAX_ARGUMENTS = 512


class Refused(Exception):
    """A call that the policy refuses. The message says why, for the user of the shim."""


@dataclass(frozen=True)
class ShimOption:
    """An option by its long name, `--state`. A `file` may be `-`; then the call reads its input.

    An option that is not `passed` is accepted, and the program does not get it.
    """

    name: str
    kind: Kind
    passed: bool = True


@dataclass(frozen=True)
class CommandForm:
    """One way to call a program: its sub-command, its options by each spelling, and its operands.

    The last operand may be repeated when `more`. `optional` operands at the end may be left out. One option
    of each group in `required` has to be there.
    """

    words: tuple[str, ...]
    options: Mapping[str, ShimOption]
    operands: tuple[Kind, ...] = ()
    optional: int = 0
    more: bool = False
    required: tuple[frozenset[str], ...] = ()

    @property
    def name(self) -> str:
        """The sub-command as it is typed."""
        return " ".join(self.words)


@dataclass(frozen=True)
class AllowedCall:
    """A command line that passed, with the arguments for the program."""

    program: str
    form: CommandForm | None
    options: tuple[tuple[ShimOption, str], ...] = ()
    operands: tuple[str, ...] = ()
    plain: tuple[str, ...] = field(default=())

    @property
    def reads_input(self) -> bool:
        """Whether the program gets the sandbox's input; with a profile, only if the call asks for it."""
        if self.form is None:
            return True
        return any(option.kind == "file" and value == "-" for option, value in self.options)

    def values(self, name: str) -> tuple[str, ...]:
        """The values given to an option, by its long name."""
        return tuple(value for option, value in self.options if option.name == name)

    def words(self) -> tuple[str | tuple[str, WorkspaceFile], ...]:
        """The arguments for the program. A file is given as the text before its name, and the file."""
        if self.form is None:
            return self.plain
        options = (_option_words(option, value) for option, value in self.options if option.passed)
        return (*self.form.words, *options, "--", *self.operands)


def _option_words(option: ShimOption, value: str) -> str | tuple[str, WorkspaceFile]:
    if option.kind == "flag":
        return option.name
    if option.kind == "file" and value != "-":
        return f"{option.name}=", WorkspaceFile(value)
    return f"{option.name}={value}"


@dataclass(frozen=True)
class ProgramProfile:
    """A known program: its forms, and the variables that may hold its secrets."""

    program: str
    forms: tuple[CommandForm, ...]
    secrets: frozenset[str]
    never: Mapping[str, str] = field(default_factory=dict)
    """Sub-commands that are left out on purpose, with the reasons."""


@dataclass(frozen=True)
class Grammar:
    """The calls that one shim allows: the policy's entries, and the profile of its program, if any."""

    program: str
    entries: tuple[ShimCommand, ...]
    profile: ProgramProfile | None

    def parse(self, arguments: Sequence[str]) -> AllowedCall:
        """Parse arguments. Raise Refused if they are not allowed."""
        if len(arguments) > MAX_ARGUMENTS:
            raise Refused(f"more than {MAX_ARGUMENTS} arguments")
        entries = [entry for entry in self.entries if _allows_words(entry, arguments)]
        if not entries:
            raise Refused(self._not_listed(arguments))
        if self.profile is None:
            longest = max(len(entry.words) for entry in entries)
            return AllowedCall(self.program, None, plain=tuple(_check_plain_words(longest, arguments)))
        form = _find_form(self.profile, arguments)
        if form is None:
            raise Refused(self._unknown_form(arguments))
        return _Parsing(self.program, form).parse(arguments[len(form.words) :])

    def _not_listed(self, arguments: Sequence[str]) -> str:
        quoted = quote_words(arguments[:3])
        listed = ", ".join(entry_text(entry) for entry in self.entries) or "nothing"
        return f"the policy does not let `{self.program} {quoted}` through; it lists: {listed}"

    def _unknown_form(self, arguments: Sequence[str]) -> str:
        assert self.profile is not None
        why = _why_never(self.profile, arguments)
        offered = sorted({form.name for form in self.profile.forms})
        return f"`{self.program} {quote_words(arguments[:2])}` is not run on the host" + (
            f": {why}" if why else f"; there is: {', '.join(offered)}"
        )


def compile_grammar(program: str, entries: Sequence[ShimCommand], profile: ProgramProfile | None) -> Grammar:
    """Make a shim's grammar.

    Raise RenderError for an entry that can allow nothing, because its sub-command is not in the profile.
    """
    for index, entry in enumerate(entries):
        if profile is not None and not any(_may_match(entry, form) for form in profile.forms):
            where = f"credentials.shims.{program}.allow[{index}]"
            reason = _why_never(profile, entry.words)
            offered = ", ".join(sorted({form.words[0] for form in profile.forms}))
            raise RenderError(
                f"{where}: `{entry_text(entry)}` is nothing that the bridge runs"
                + (f": {reason}" if reason else f"; it runs {offered}")
            )
    return Grammar(program, tuple(entries), profile)


def entry_text(entry: ShimCommand) -> str:
    """An entry as it stands in the policy."""
    return " ".join([*entry.words, *(["*"] if entry.more else [])])


def quote_words(words: Sequence[str]) -> str:
    """Words for a message: short, on one line, without control characters."""
    text = " ".join(words).encode("unicode_escape", "backslashreplace").decode("ascii")
    return text if len(text) <= 120 else f"{text[:117]}..."


def _allows_words(entry: ShimCommand, arguments: Sequence[str]) -> bool:
    words = tuple(arguments)
    return words[: len(entry.words)] == entry.words if entry.more else words == entry.words


def _may_match(entry: ShimCommand, form: CommandForm) -> bool:
    """Whether an entry could cover a call of a form."""
    shared = min(len(entry.words), len(form.words))
    if entry.words[:shared] != form.words[:shared]:
        return False
    return entry.more or len(entry.words) >= len(form.words)


def _find_form(profile: ProgramProfile, arguments: Sequence[str]) -> CommandForm | None:
    """The form with the longest sub-command that the arguments begin with."""
    fitting = [form for form in profile.forms if tuple(arguments[: len(form.words)]) == form.words]
    return max(fitting, key=lambda form: len(form.words), default=None)


def _why_never(profile: ProgramProfile, arguments: Sequence[str]) -> str:
    """The reason why a sub-command is not in a profile, if it is recorded."""
    fitting = (name for name in profile.never if tuple(arguments[: len(name.split())]) == tuple(name.split()))
    return profile.never.get(max(fitting, key=len, default=""), "")


def _check_plain_words(checked_from: int, arguments: Sequence[str]) -> Iterator[str]:
    """The arguments, where those beyond the longest entry's `checked_from` words are plain words."""
    for index, word in enumerate(arguments):
        if index >= checked_from and not is_plain_word(word):
            raise Refused(
                f"{quote_words([word])!r}: without a profile of the program, `*` stands for plain words "
                "only; list other arguments in the policy"
            )
        yield word


class _Parsing:
    """Parses one command line after its sub-command."""

    def __init__(self, program: str, form: CommandForm) -> None:
        self._program = program
        self._form = form
        self._options: list[tuple[ShimOption, str]] = []
        self._operands: list[str] = []

    def parse(self, arguments: Sequence[str]) -> AllowedCall:
        rest = list(arguments)
        while rest:
            word = rest.pop(0)
            if word == "--":
                self._operands += rest
                break
            if word.startswith("-"):
                self._option(word, rest)
            else:
                self._operands.append(word)
        self._check_operands()
        self._check_required_options()
        return AllowedCall(self._program, self._form, tuple(self._options), tuple(self._operands))

    def _option(self, word: str, rest: list[str]) -> None:
        spelling, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        option = self._form.options.get(spelling)
        if option is None:
            raise Refused(f"{self._where()}: the option {quote_words([spelling])!r} is not let through")
        if option.kind == "flag":
            if equals:
                raise Refused(f"{self._where()}: {spelling} takes no value")
            self._options.append((option, ""))
            return
        if not equals:
            if not rest:
                raise Refused(f"{self._where()}: {spelling} needs a value")
            value = rest.pop(0)
        self._check_argument(option.kind, spelling, value)
        self._options.append((option, value))

    def _check_operands(self) -> None:
        kinds, operands = self._form.operands, self._operands
        if len(operands) < len(kinds) - self._form.optional:
            raise Refused(f"{self._where()}: needs {' '.join(kinds)}")
        if len(operands) > len(kinds) and not (self._form.more and kinds):
            raise Refused(
                f"{self._where()}: {quote_words(operands[len(kinds) :][:1])!r} is one argument too many"
            )
        for index, value in enumerate(operands):
            kind = kinds[min(index, len(kinds) - 1)]
            if value.startswith("-"):
                raise Refused(f"{self._where()}: {quote_words([value])!r} looks like an option")
            self._check_argument(kind, kind, value)

    def _check_required_options(self) -> None:
        names = {option.name for option, _ in self._options}
        for group in self._form.required:
            if not group & names:
                raise Refused(f"{self._where()}: needs {' or '.join(sorted(group))}; it cannot prompt")

    def _check_argument(self, kind: Kind, what: str, value: str) -> None:
        if fault := value_fault(kind, value):
            raise Refused(f"{self._where()}: {what}: {quote_words([value])!r} {fault}")

    def _where(self) -> str:
        return f"{self._program} {self._form.name}"
