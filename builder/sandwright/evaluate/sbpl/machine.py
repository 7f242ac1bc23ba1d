"""Runs Scheme: expressions, tail calls without a growing stack, and limits that always end a run.

Evaluation is written as generators which *yield* the sub-expressions they need; `Machine.run` keeps the
waiting ones on a separate stack. So we choose the limit of a profile's recursion, not Python.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sandwright.evaluate.sbpl.datum import NIL, Pair, Symbol, Value, elements, scheme_list
from sandwright.evaluate.sbpl.errors import ProfileError, SbplFault
from sandwright.evaluate.sbpl.source import Position, Span


@dataclass(frozen=True)
class SbplLimits:
    """Limits of a profile while it runs: far more than profiles use. Apple's largest takes 15,000 steps.

    `steps` counts evaluations and elements touched by built-in procedures, `depth` expressions that wait for
    another, `string` octets of one string, `rules` rules, `filters` the tests of one rule.
    """

    steps: int = 1_000_000
    depth: int = 10_000
    string: int = 1 << 20
    rules: int = 100_000
    filters: int = 100_000


@dataclass(slots=True, eq=False)
class SchemeEnvironment:
    """Names and their values, over an outer environment."""

    values: dict[Symbol, Value]
    outer: SchemeEnvironment | None = None

    def find(self, name: Symbol) -> dict[Symbol, Value] | None:
        """The scope in which `name` is bound, or None."""
        scope: SchemeEnvironment | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values
            scope = scope.outer
        return None

    def lookup(self, name: Symbol) -> Value:
        """The value of `name`. Raise Fault when it is not bound."""
        scope: SchemeEnvironment | None = self
        while scope is not None:
            values = scope.values
            if name in values:
                return values[name]
            scope = scope.outer
        raise SbplFault(f"unbound variable: {name!r}")


class Tail(NamedTuple):
    """An expression whose value is the value of the form that returned it."""

    form: Value
    environment: SchemeEnvironment


class ProcedureCall(NamedTuple):
    """A procedure to apply to values."""

    procedure: Value
    arguments: Sequence[Value]


Wanted = Tail | ProcedureCall
Evaluation = Generator[Wanted, Value, Value]
FormResult = Generator[Wanted, Value, Value | Tail | ProcedureCall]
SpecialForm = Callable[["Machine", Pair, SchemeEnvironment], FormResult]


def _check_count(name: str, count: int, least: int, most: int | None) -> None:
    """Raise SbplFault unless a procedure takes `count` arguments."""
    if count < least or (most is not None and count > most):
        expected = str(least) if most == least else f"{least} to {most}"
        expected = f"at least {least}" if most is None else expected
        raise SbplFault(f"{name} takes {expected} arguments, not {count}")


@dataclass(eq=False, repr=False)
class Procedure:
    """A built-in procedure. `least` and `most` arguments; `most` None for any number.

    `named` makes a value of an operand that is a symbol nothing binds; None: that is an error.
    """

    name: str
    call: Callable[..., object]
    least: int
    most: int | None
    named: Callable[[Symbol], Value] | None = field(default=None, init=False)

    def __repr__(self) -> str:
        return f"#<procedure {self.name}>"

    def check(self, count: int) -> None:
        """Raise Fault unless it takes `count` arguments."""
        _check_count(self.name, count, self.least, self.most)


class Steps(Procedure):
    """A built-in procedure that calls others: a generator as `Machine._evaluate` is one."""


class Closure:
    """A procedure of the profile."""

    def __init__(
        self, parameters: Value, body: Value, environment: SchemeEnvironment, name: str = "lambda"
    ) -> None:
        """`parameters` as written: a list, a dotted list, or a single symbol."""
        self.name = name
        self.parameters: list[Symbol] = []
        while isinstance(parameters, Pair):
            if not isinstance(parameters.car, Symbol):
                raise SbplFault("a parameter must be a symbol")
            self.parameters.append(parameters.car)
            parameters = parameters.cdr
        if parameters is not NIL and not isinstance(parameters, Symbol):
            raise SbplFault("a parameter must be a symbol")
        self.rest = parameters if isinstance(parameters, Symbol) else None
        self.body = body
        self.environment = environment

    def __repr__(self) -> str:
        return f"#<procedure {self.name}>"

    def bind(self, arguments: Sequence[Value]) -> SchemeEnvironment:
        """The environment of a call. Raise Fault when the number of arguments is wrong."""
        count = len(self.parameters)
        _check_count(self.name, len(arguments), count, count if self.rest is None else None)
        values = dict(zip(self.parameters, arguments, strict=False))
        if self.rest is not None:
            values[self.rest] = scheme_list(arguments[count:])
        return SchemeEnvironment(values, self.environment)


@dataclass(slots=True, eq=False)
class Macro:
    """A procedure that rewrites the form it heads. `whole` gives it the form itself, else its operands."""

    transformer: Value
    whole: bool = field(kw_only=True)


class Machine:
    """One run of a profile."""

    def __init__(self, forms: Mapping[Symbol, SpecialForm], limits: SbplLimits) -> None:
        """`forms` are the special forms; a name the profile binds itself is no longer one."""
        self.forms = forms
        self.limits = limits
        self.steps = 0
        self.span: Span | None = None

    def charge(self, cost: int) -> None:
        """Count `cost` steps. Raise Fault when the profile has used them up."""
        self.steps += cost
        if self.steps > self.limits.steps:
            raise SbplFault(f"the profile runs for more than {self.limits.steps} steps")

    def check_string(self, text: str) -> str:
        """`text`, charged for. Raise Fault when it is longer than a string may be."""
        if len(text) > self.limits.string:
            raise SbplFault(f"a string is longer than {self.limits.string} bytes")
        self.charge(1 + len(text) // 16)
        return text

    def run(self, form: Value, environment: SchemeEnvironment) -> Value:
        """Evaluate one expression. Raise ProfileError, saying where, when that fails or takes too much."""
        waiting = [self._evaluate(form, environment)]
        value: Value = None
        try:
            while waiting:
                self.charge(1)
                try:
                    request = waiting[-1].send(value)
                except StopIteration as done:
                    waiting.pop()
                    value = done.value
                    continue
                if len(waiting) >= self.limits.depth:
                    raise SbplFault(f"the profile recurses deeper than {self.limits.depth} expressions")
                waiting.append(self._start_evaluation(request))
                value = None
        except SbplFault as fault:
            raise self._locate_fault(fault) from None
        return value

    def _start_evaluation(self, request: Wanted) -> Evaluation:
        if isinstance(request, Tail):
            return self._evaluate(request.form, request.environment)
        return self._apply_call(request)

    def _locate_fault(self, fault: SbplFault) -> ProfileError:
        span = fault.span or self.span
        position = span.position if span is not None else Position("profile", 1, 1)
        return ProfileError(position, fault.message)

    def _apply_call(self, call: ProcedureCall) -> Evaluation:
        outcome: object = yield from self._called(call)
        while isinstance(outcome, Tail | ProcedureCall):
            outcome = yield outcome
        return outcome

    def _evaluate(self, form: Value, environment: SchemeEnvironment) -> Evaluation:
        while True:
            if isinstance(form, Symbol):
                return environment.lookup(form)
            if not isinstance(form, Pair):
                return form
            if form.span is not None:
                self.span = form.span
            outcome = yield from self._evaluate_list(form, environment)
            while isinstance(outcome, ProcedureCall):
                self.charge(1)
                outcome = yield from self._called(outcome)
            if not isinstance(outcome, Tail):
                return outcome
            self.charge(1)
            form, environment = outcome

    def _evaluate_list(self, form: Pair, environment: SchemeEnvironment) -> FormResult:
        """Evaluate a list: a special form, the use of a macro, or a call."""
        head = form.car
        if isinstance(head, Symbol):
            special = self.forms.get(head)
            if special is not None and environment.find(head) is None:
                return (yield from special(self, form, environment))
            operator = self.value_of(form, environment)
        else:
            operator = yield Tail(head, environment)
        if isinstance(operator, Macro):
            argument = [form] if operator.whole else list(elements(form.cdr, "the use of a macro"))
            expansion = yield ProcedureCall(operator.transformer, argument)
            return Tail(expansion, environment)
        named = operator.named if isinstance(operator, Procedure) else None
        arguments = yield from self.operands(form.cdr, environment, named)
        if form.span is not None:
            self.span = form.span
        return ProcedureCall(operator, arguments)

    def value_of(
        self, cell: Pair, environment: SchemeEnvironment, named: Callable[[Symbol], Value] | None = None
    ) -> Value:
        """The value of the symbol in a cell; when it is not bound, the Fault says where it stands."""
        assert isinstance(cell.car, Symbol)
        try:
            return environment.lookup(cell.car)
        except SbplFault as fault:
            if named is not None:
                return named(cell.car)
            raise SbplFault(fault.message, cell.origin) from None

    def operands(
        self, rest: Value, environment: SchemeEnvironment, named: Callable[[Symbol], Value] | None
    ) -> Generator[Wanted, Value, list[Value]]:
        """Evaluate the operands of a call from left to right."""
        values: list[Value] = []
        while isinstance(rest, Pair):
            operand = rest.car
            if isinstance(operand, Symbol):
                values.append(self.value_of(rest, environment, named))
            elif isinstance(operand, Pair):
                values.append((yield Tail(operand, environment)))
            else:
                values.append(operand)
            rest = rest.cdr
        if rest is not NIL:
            raise SbplFault("a call cannot be a dotted list")
        return values

    def _called(self, call: ProcedureCall) -> FormResult:
        procedure, arguments = call
        if isinstance(procedure, Closure):
            return (yield from self.body(procedure.body, procedure.bind(arguments)))
        if isinstance(procedure, Procedure):
            procedure.check(len(arguments))
            if isinstance(procedure, Steps):
                generator: FormResult = procedure.call(*arguments)  # type: ignore[assignment]
                return (yield from generator)
            return procedure.call(*arguments)
        raise SbplFault(f"{describe(procedure)} is not a procedure")

    def body(self, body: Value, environment: SchemeEnvironment) -> FormResult:
        """Evaluate a sequence of expressions; the last one is left to the caller, as a Tail."""
        if body is NIL:
            return NIL
        while isinstance(body, Pair):
            if body.cdr is NIL:
                return Tail(body.car, environment)
            yield Tail(body.car, environment)
            body = body.cdr
        raise SbplFault("a body must be a list of expressions")


def describe(value: Value) -> str:
    """A short description of a value, for messages."""
    match value:
        case bool():
            return "#t" if value else "#f"
        case str():
            return "a string"
        case int() | float():
            return f"the number {value}"
        case Pair():
            return "a list"
        case Symbol():
            return f"the symbol {value!r}"
        case _:
            return repr(value)
