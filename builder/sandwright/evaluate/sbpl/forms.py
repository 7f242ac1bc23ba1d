"""The special forms of Scheme that profiles use."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.evaluate.sbpl.datum import (
    NIL,
    Pair,
    Symbol,
    Value,
    Vector,
    elements,
    is_true,
    scheme_list,
    symbol,
)
from sandwright.evaluate.sbpl.errors import SbplFault
from sandwright.evaluate.sbpl.machine import (
    Closure,
    FormResult,
    Machine,
    Macro,
    ProcedureCall,
    SchemeEnvironment,
    SpecialForm,
    Tail,
)

_ELSE, _ARROW, _QUOTE = symbol("else"), symbol("=>"), symbol("quote")
_UNQUOTE, _SPLICE, _QUASI = symbol("unquote"), symbol("unquote-splicing"), symbol("quasiquote")


def _operands(form: Pair, least: int, most: int | None = None) -> list[Value]:
    """The operands of a form. Raise Fault unless there are `least` to `most` of them."""
    parts = list(elements(form.cdr, f"({form.car!r} …)"))
    if len(parts) < least or (most is not None and len(parts) > most):
        raise SbplFault(f"malformed {form.car!r}")
    return parts


def _quote(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:  # noqa: ARG001
    return _operands(form, 1, 1)[0]
    yield


def _if(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:  # noqa: ARG001
    test, *branches = _operands(form, 2)
    if is_true((yield Tail(test, environment))):
        return Tail(branches[0], environment)
    return Tail(branches[1], environment) if len(branches) > 1 else NIL


def _define(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:
    """`define`. Like TinyScheme it ignores anything after the expression, as Apple writes once."""
    target, *body = _operands(form, 1)
    if isinstance(target, Pair):
        name = target.car
        if not isinstance(name, Symbol):
            raise SbplFault("define needs a symbol to bind")
        environment.values[name] = Closure(target.cdr, scheme_list(body), environment, repr(name))
        return name
    if not isinstance(target, Symbol):
        raise SbplFault("define needs a symbol to bind")
    value = (yield Tail(body[0], environment)) if body else NIL
    if isinstance(value, Closure) and value.name == "lambda":
        value.name = repr(target)
    machine.charge(1)
    environment.values[target] = value
    return target


def _set_form(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:  # noqa: ARG001
    name, expression = _operands(form, 2, 2)
    if not isinstance(name, Symbol):
        raise SbplFault("set! needs a symbol")
    value = yield Tail(expression, environment)
    scope = environment.find(name)
    if scope is None:
        raise SbplFault(f"set!: unbound variable: {name!r}")
    scope[name] = value
    return value


def _lambda(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:  # noqa: ARG001
    parameters, *body = _operands(form, 2)
    return Closure(parameters, scheme_list(body), environment)
    yield


def _begin_form(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:
    return (yield from machine.body(form.cdr, environment))


def _let_bindings(value: Value) -> Iterator[tuple[Symbol, Value]]:
    """The names and expressions of the bindings of a let.

    TinyScheme takes no notice of a third part; a profile of Apple's has one.
    """
    for binding in elements(value, "the list of bindings"):
        parts = list(elements(binding, "a binding")) if isinstance(binding, Pair) else []
        if not parts or not isinstance(parts[0], Symbol):
            raise SbplFault("a binding must be (name expression)")
        yield parts[0], parts[1] if len(parts) > 1 else NIL


def _let(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:
    first, *body = _operands(form, 2)
    if isinstance(first, Symbol):
        return (yield from _named_let(first, body, environment))
    values = {}
    for name, expression in _let_bindings(first):
        values[name] = yield Tail(expression, environment)
    return (yield from machine.body(scheme_list(body), SchemeEnvironment(values, environment)))


def _named_let(name: Symbol, rest: list[Value], environment: SchemeEnvironment) -> FormResult:
    bindings = list(_let_bindings(rest[0]))
    arguments = []
    for _, expression in bindings:
        arguments.append((yield Tail(expression, environment)))
    scope = SchemeEnvironment({}, environment)
    loop = Closure(scheme_list(bound for bound, _ in bindings), scheme_list(rest[1:]), scope, repr(name))
    scope.values[name] = loop
    return ProcedureCall(loop, arguments)


def _let_star(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:
    """`let*` as in TinyScheme: after the first binding all share one scope, and procedures see themselves.

    Apple's `application.sb` needs that.
    """
    bindings, *body = _operands(form, 2)
    scope = environment
    for name, expression in _let_bindings(bindings):
        value = yield Tail(expression, scope)
        if scope is environment:
            scope = SchemeEnvironment({}, environment)
        scope.values[name] = value
    scope = SchemeEnvironment({}, environment) if scope is environment else scope
    return (yield from machine.body(scheme_list(body), scope))


def _letrec(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:
    bindings, *body = _operands(form, 2)
    scope = SchemeEnvironment({}, environment)
    for name, expression in _let_bindings(bindings):
        scope.values[name] = yield Tail(expression, scope)
    return (yield from machine.body(scheme_list(body), scope))


def _cond(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:
    for clause in elements(form.cdr, "cond"):
        if not isinstance(clause, Pair):
            raise SbplFault("a clause of cond must be a list")
        if clause.car is _ELSE:
            return (yield from machine.body(clause.cdr, environment))
        value = yield Tail(clause.car, environment)
        if not is_true(value):
            continue
        if clause.cdr is NIL:
            return value
        if isinstance(clause.cdr, Pair) and clause.cdr.car is _ARROW and isinstance(clause.cdr.cdr, Pair):
            receiver = yield Tail(clause.cdr.cdr.car, environment)
            return ProcedureCall(receiver, [value])
        return (yield from machine.body(clause.cdr, environment))
    return NIL


def _case_form(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:
    key_expression, *clauses = _operands(form, 1)
    key = yield Tail(key_expression, environment)
    for clause in clauses:
        if not isinstance(clause, Pair):
            raise SbplFault("a clause of case must be a list")
        if clause.car is _ELSE or any(
            same(key, choice) for choice in elements(clause.car, "a list of choices")
        ):
            return (yield from machine.body(clause.cdr, environment))
    return NIL


def same(left: Value, right: Value) -> bool:
    """`eqv?`: the same object, or equal numbers, characters or truth values."""
    if left is right:
        return True
    kind = type(left)
    return kind is type(right) and kind.__name__ in ("int", "float", "Char") and left == right


def _decisive_form(*, decisive: bool) -> SpecialForm:
    """`or` and `and`: the first operand that is true, or that is false, else the last."""

    def form(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:  # noqa: ARG001
        parts = _operands(form, 0)
        for part in parts[:-1]:
            value = yield Tail(part, environment)
            if is_true(value) is decisive:
                return value
        return Tail(parts[-1], environment) if parts else not decisive

    return form


def _when(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:
    test, *body = _operands(form, 1)
    is_when = form.car is symbol("when")
    if is_true((yield Tail(test, environment))) is not is_when:
        return NIL
    return (yield from machine.body(scheme_list(body), environment))


def _do(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:
    variables, ending, *body = _operands(form, 2)
    specs = [list(elements(spec, "a variable of do")) for spec in elements(variables, "the variables of do")]
    names = [spec[0] for spec in specs if 2 <= len(spec) <= 3 and isinstance(spec[0], Symbol)]
    if len(names) != len(specs):
        raise SbplFault("a variable of do must be (name initial step)")
    if not isinstance(ending, Pair):
        raise SbplFault("do needs (test result …)")
    values = []
    for spec in specs:
        values.append((yield Tail(spec[1], environment)))
    while True:
        scope = SchemeEnvironment(dict(zip(names, values, strict=True)), environment)
        if is_true((yield Tail(ending.car, scope))):
            return (yield from machine.body(ending.cdr, scope))
        for expression in body:
            yield Tail(expression, scope)
        values = []
        for spec in specs:
            values.append((yield Tail(spec[-1] if len(spec) == 3 else spec[0], scope)))


def _macro(*, whole: bool) -> SpecialForm:
    """TinyScheme's own `(macro (name form) body …)` and `(macro name procedure)`, and `define-macro`."""

    def form(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:  # noqa: ARG001
        target, *body = _operands(form, 2)
        if isinstance(target, Pair):
            name, transformer = target.car, Closure(target.cdr, scheme_list(body), environment, "macro")
        else:
            name = target
            transformer = yield Tail(body[0], environment)  # type: ignore[assignment]
        if not isinstance(name, Symbol):
            raise SbplFault("a macro needs a symbol as its name")
        environment.values[name] = Macro(transformer, whole=whole)
        return name

    return form


def _quasiquote(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:
    return (yield from _fill_template(machine, _operands(form, 1, 1)[0], environment, 1))


def _fill_template(
    machine: Machine, template: Value, environment: SchemeEnvironment, level: int
) -> FormResult:
    """A template with its unquoted parts evaluated."""
    if level > 100:
        raise SbplFault("a quasiquotation nests too deep")
    if isinstance(template, Vector):
        items = yield from _fill_template(machine, scheme_list(template.items), environment, level + 1)
        return Vector(elements(items))
    collected: list[Value] = []
    rest = template
    while isinstance(rest, Pair):
        machine.charge(1)
        if rest.car is _UNQUOTE and isinstance(rest.cdr, Pair):
            break
        part = rest.car
        if isinstance(part, Pair) and part.car is _SPLICE and isinstance(part.cdr, Pair):
            collected.extend(elements((yield Tail(part.cdr.car, environment)), "what ,@ splices in"))
        elif isinstance(part, Pair | Vector):
            collected.append((yield from _fill_template(machine, part, environment, level + 1)))
        else:
            collected.append(part)
        rest = rest.cdr
    tail: Value = rest
    if isinstance(rest, Pair):
        assert isinstance(rest.cdr, Pair)
        tail = yield Tail(rest.cdr.car, environment)
    return scheme_list(collected, tail)


def _defined(machine: Machine, form: Pair, environment: SchemeEnvironment) -> FormResult:  # noqa: ARG001
    """`(defined? 'name)`; the name may also stand unquoted."""
    name = _operands(form, 1, 2)[0]
    if isinstance(name, Pair) and name.car is not _QUOTE:
        name = yield Tail(name, environment)
    elif isinstance(name, Pair) and isinstance(name.cdr, Pair):
        name = name.cdr.car
    return isinstance(name, Symbol) and environment.find(name) is not None


SPECIAL_FORMS: dict[Symbol, SpecialForm] = {
    symbol(name): form
    for name, form in {
        "quote": _quote,
        "quasiquote": _quasiquote,
        "if": _if,
        "define": _define,
        "set!": _set_form,
        "lambda": _lambda,
        "begin": _begin_form,
        "let": _let,
        "let*": _let_star,
        "letrec": _letrec,
        "cond": _cond,
        "case": _case_form,
        "and": _decisive_form(decisive=False),
        "or": _decisive_form(decisive=True),
        "when": _when,
        "unless": _when,
        "do": _do,
        "macro": _macro(whole=True),
        "define-macro": _macro(whole=False),
        "defined?": _defined,
    }.items()
}
"""The forms by name. A profile that binds one of the names hides the form."""
