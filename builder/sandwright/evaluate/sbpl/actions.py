"""Makes rules: `allow`, `deny`, and the forms that change their effect inside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sandwright.evaluate.sbpl.datum import NIL, Pair, Symbol, Value, elements, symbol
from sandwright.evaluate.sbpl.errors import SbplFault
from sandwright.evaluate.sbpl.filters import All, Any, Filter, Not, Test, check_size, tests
from sandwright.evaluate.sbpl.machine import (
    FormResult,
    Machine,
    SchemeEnvironment,
    SpecialForm,
    Tail,
    describe,
)
from sandwright.evaluate.sbpl.rule import Modifier, Rule
from sandwright.evaluate.sbpl.vocabulary import Action, ModifierKind, vocabulary

NO_OP = symbol("no-op")
"""The value of operations that macOS has removed but still accepts in profiles."""

MAX_PATTERN_DATA = (1 << 16) - 1
"""Bytes of patterns in one rule: more do not compile on macOS (NixOS/nix#4119)."""

Kind = Literal["filter", "modifier", "operations"]


@dataclass(frozen=True, slots=True)
class OperationValue:
    """An operation as a value of the profile."""

    name: str

    def __repr__(self) -> str:
        return f"the operation {self.name}"


@dataclass(frozen=True, slots=True)
class _Around:
    """The value that a `with-filter`, `with-modifier` or `with-operations` adds to the rules inside it."""

    kind: Kind
    value: Value


class Actions:
    """The rules made so far, and the forms the profile is inside of."""

    def __init__(self, machine: Machine) -> None:
        """`machine` says which form makes a rule, and bears the cost."""
        self.machine = machine
        self.rules: list[Rule] = []
        self._around: list[_Around] = []
        self._outer: list[list[Rule]] = []

    def special_forms(self) -> dict[Symbol, SpecialForm]:
        """The forms that change the effect of `allow` and `deny`, and `debug`, which does nothing."""
        return {
            symbol("with-filter"): self._with("filter"),
            symbol("with-modifier"): self._with("modifier"),
            symbol("with-operations"): self._with("operations"),
            symbol("apply-message-filter"): self._message_filter,
            symbol("debug"): _ignore,
        }

    def recover(self) -> None:
        """Leave all forms around an expression that failed."""
        self._around = []
        if self._outer:
            self.rules = self._outer[0]
            self._outer = []

    def allow(self, *parts: Value) -> Value:
        """`(allow operation … filter … modifier …)`, in any order."""
        return self._act("allow", parts)

    def deny(self, *parts: Value) -> Value:
        """`(deny operation … filter … modifier …)`, in any order."""
        return self._act("deny", parts)

    def storage_class(self, name: Value, tested: Value) -> Value:
        """`(define-storage-class name filter)`."""
        kind = modifier(vocabulary().modifiers["assign-storage-class"], name)
        return self.allow(kind, OperationValue("storage-class-map"), tested)

    def _act(self, action: Action, parts: Sequence[Value]) -> Value:
        operations, filters, modifiers = _sorted(action, parts)
        for around in reversed(self._around):
            if around.kind == "operations":
                operations = [*_operation_names(around.value), *operations]
            elif around.kind == "modifier":
                modifiers = [*_sorted(action, [around.value])[2], *modifiers]
            else:
                filters = [_conjunction(filters, around.value)]
        if operations:
            self._add_rule(action, operations, filters, modifiers)
        elif NO_OP not in parts:
            raise SbplFault(f"{action}: needs at least one operation")
        return NIL

    def _add_rule(
        self,
        action: Action,
        operations: Sequence[str],
        filters: Sequence[Filter],
        modifiers: Sequence[Modifier],
    ) -> None:
        limits, span = self.machine.limits, self.machine.span
        assert span is not None, "a rule is made by a form that was read"
        if filters:
            self.machine.charge(check_size(Any(tuple(filters)), limits.filters))
            _check_data(filters)
        if len(self.rules) >= limits.rules:
            raise SbplFault(f"the profile has more than {limits.rules} rules")
        unique = tuple(dict.fromkeys(operations))
        self.rules.append(Rule(len(self.rules), action, unique, tuple(filters), tuple(modifiers), span))

    def _with(self, kind: Kind) -> SpecialForm:
        def form(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:  # noqa: ARG001
            if not isinstance(form.cdr, Pair):
                raise SbplFault(f"malformed {form.car!r}")
            value = yield Tail(form.cdr.car, environment)
            _check_around(kind, value)
            self._around.append(_Around(kind, value))
            for body in elements(form.cdr.cdr, "the body"):
                yield Tail(body, environment)
            self._around.pop()
            return NIL

        return form

    def _message_filter(self, machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:  # noqa: ARG002
        """`(apply-message-filter rule …)`: rules about the messages sent through an allowed operation."""
        self._outer.append(self.rules)
        around, self.rules, self._around = self._around, [], []
        for body in elements(form.cdr, "the body"):
            yield Tail(body, environment)
        inner = tuple(self.rules)
        self.rules, self._around = self._outer.pop(), around
        return Modifier("message-filter", (), inner)


def modifier(kind: Value, *arguments: Value) -> Modifier:
    """`(with modifier argument …)`."""
    if not isinstance(kind, ModifierKind):
        raise SbplFault(f"with: argument 1 must be: modifier, not {describe(kind)}")
    types: dict[str, type] = {"string": str, "integer": int}
    takes = types.get(kind.argument)
    if takes is not None and (len(arguments) != 1 or not isinstance(arguments[0], takes)):
        raise SbplFault(f"with {kind.name}: needs one {kind.argument}")
    if kind.argument == "none" and arguments:
        raise SbplFault(f"with {kind.name}: takes no argument")
    return Modifier(kind.name, tuple(w if isinstance(w, str | int) else describe(w) for w in arguments))


def _sorted(action: Action, parts: Sequence[Value]) -> tuple[list[str], list[Filter], list[Modifier]]:
    """The operations, filters and modifiers among the arguments of an action."""
    operations: list[str] = []
    filters: list[Filter] = []
    modifiers: list[Modifier] = []
    for number, part in enumerate(parts, 1):
        match part:
            case OperationValue(name):
                operations.append(name)
            case Test() | All() | Any() | Not():
                filters.append(part)
            case Modifier():
                _check_action(action, part)
                modifiers.append(part)
            case Symbol() if part is NO_OP:
                pass
            case _:
                expected = "operation, filter or modifier"
                raise SbplFault(f"{action}: argument {number} must be: {expected}, not {describe(part)}")
    return operations, filters, modifiers


def _conjunction(filters: Sequence[Filter], extra: Value) -> Filter:
    assert isinstance(extra, Test | All | Any | Not)
    return All((Any(tuple(filters)), extra)) if filters else extra


def _operation_names(value: Value) -> Iterator[str]:
    for item in elements(value, "the list of operations"):
        if not isinstance(item, OperationValue):
            raise SbplFault(f"{describe(item)} is not an operation")
        yield item.name


def _check_around(kind: Kind, value: Value) -> None:
    if kind == "filter" and not isinstance(value, Test | All | Any | Not):
        raise SbplFault("with-filter: argument 1 must be: filter")
    if kind == "modifier" and not isinstance(value, Modifier):
        raise SbplFault("with-modifier: argument 1 must be: modifier")
    if kind == "operations":
        list(_operation_names(value))


def _check_action(action: Action, found: Modifier) -> None:
    kind = vocabulary().modifiers.get(found.name)
    if kind is not None and kind.action not in (None, action):
        raise SbplFault(f"{action}: the modifier {found.name} applies to {kind.action} only")


def _check_data(filters: Sequence[Filter]) -> None:
    total = sum(
        len(test.value) for tested in filters for test in tests(tested) if isinstance(test.value, str)
    )
    if total > MAX_PATTERN_DATA:
        raise SbplFault(f"a rule has more than {MAX_PATTERN_DATA} bytes of patterns")


def _ignore(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:  # noqa: ARG001
    return NIL
    yield
