"""The built-in procedures on lists and on procedures themselves.

Each takes the machine first where its cost depends on its arguments, so that no list grows unseen.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence

from sandwright.evaluate.sbpl.datum import (
    NIL,
    Char,
    Pair,
    Symbol,
    Value,
    Vector,
    elements,
    is_true,
    scheme_list,
    symbol,
    write_datum,
)
from sandwright.evaluate.sbpl.errors import SbplFault
from sandwright.evaluate.sbpl.forms import same
from sandwright.evaluate.sbpl.machine import (
    Closure,
    FormResult,
    Machine,
    Procedure,
    ProcedureCall,
    Steps,
    Wanted,
    describe,
)
from sandwright.evaluate.sbpl.numbers import integer, number_procedures
from sandwright.evaluate.sbpl.source import readable


def _pair_accessor(path: str) -> Callable[[Value], Value]:
    """`car`, `cdr` and their compositions: "ad" is `cadr`."""
    name = f"c{path}r"

    def part(value: Value) -> Value:
        for step in reversed(path):
            if not isinstance(value, Pair):
                raise SbplFault(f"{name} of {describe(value)}, which is no pair")
            value = value.car if step == "a" else value.cdr
        return value

    return part


def equal(machine: Machine, left: Value, right: Value) -> bool:
    """`equal?`: the same structure of `eqv?` parts and equal strings."""
    pending = [(left, right)]
    while pending:
        one, other = pending.pop()
        machine.charge(1)
        if isinstance(one, Pair) and isinstance(other, Pair):
            pending.append((one.cdr, other.cdr))
            pending.append((one.car, other.car))
        elif isinstance(one, Vector) and isinstance(other, Vector) and len(one.items) == len(other.items):
            pending.extend(zip(one.items, other.items, strict=True))
        elif isinstance(one, str) and isinstance(other, str):
            if one != other:
                return False
        elif not same(one, other):
            return False
    return True


def _is_list(value: Value) -> bool:
    while isinstance(value, Pair):
        value = value.cdr
    return value is NIL


def _tests() -> dict[str, tuple[Callable[..., object], int, int | None]]:
    kinds: dict[str, Callable[[Value], bool]] = {
        "not": lambda value: value is False,
        "null?": lambda value: value is NIL,
        "pair?": lambda value: isinstance(value, Pair),
        "list?": _is_list,
        "atom?": lambda value: not isinstance(value, Pair),
        "symbol?": lambda value: isinstance(value, Symbol),
        "string?": lambda value: isinstance(value, str),
        "char?": lambda value: isinstance(value, Char),
        "boolean?": lambda value: isinstance(value, bool),
        "number?": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
        "real?": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
        "integer?": lambda value: isinstance(value, int) and not isinstance(value, bool),
        "procedure?": lambda value: isinstance(value, Procedure | Closure),
        "vector?": lambda value: isinstance(value, Vector),
    }
    return {name: (test, 1, 1) for name, test in kinds.items()}


class _Lists:
    """The list procedures whose cost depends on how long the lists are."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def items(self, value: Value, name: str) -> list[Value]:
        found = []
        for item in elements(value, f"what {name} takes"):
            self.machine.charge(1)
            found.append(item)
        return found

    def make(self, items: Sequence[Value], tail: Value = NIL) -> Value:
        self.machine.charge(len(items))
        return scheme_list(items, tail)

    def append(self, *lists: Value) -> Value:
        result: Value = lists[-1] if lists else NIL
        for part in reversed(lists[:-1]):
            result = self.make(self.items(part, "append"), result)
        return result

    def tail(self, value: Value, count: Value) -> Value:
        for _ in range(integer(count, "list-tail")):
            self.machine.charge(1)
            if not isinstance(value, Pair):
                raise SbplFault("list-tail: the list is too short")
            value = value.cdr
        return value

    def take(self, value: Value, count: Value) -> Value:
        items = self.items(value, "take")
        if len(items) < integer(count, "take"):
            raise SbplFault("take: the list is too short")
        return self.make(items[: integer(count, "take")])

    def find(self, holds: Callable[[Value, Value], bool], name: str) -> Callable[[Value, Value], Value]:
        def member(item: Value, rest: Value) -> Value:
            while isinstance(rest, Pair):
                self.machine.charge(1)
                if holds(item, rest.car):
                    return rest
                rest = rest.cdr
            return False

        def assoc(key: Value, rest: Value) -> Value:
            for entry in self.items(rest, name):
                if isinstance(entry, Pair) and holds(key, entry.car):
                    return entry
            return False

        return assoc if name.startswith("ass") else member

    def table(self) -> dict[str, tuple[Callable[..., object], int, int | None]]:
        deep = functools.partial(equal, self.machine)
        found: dict[str, tuple[Callable[..., object], int, int | None]] = {
            "cons": (Pair, 2, 2),
            "acons": (lambda key, value, rest: Pair(Pair(key, value), rest), 3, 3),
            "flatten": (functools.partial(_flatten, self.machine), 1, 1),
            "list": (lambda *items: self.make(items), 0, None),
            "append": (self.append, 0, None),
            "reverse": (lambda value: self.make(self.items(value, "reverse")[::-1]), 1, 1),
            "length": (lambda value: len(self.items(value, "length")), 1, 1),
            "list-tail": (self.tail, 2, 2),
            "list-ref": (lambda value, index: _pair_accessor("a")(self.tail(value, index)), 2, 2),
            "drop": (self.tail, 2, 2),
            "take": (self.take, 2, 2),
            "last-pair": (lambda value: self.make(self.items(value, "last-pair")[-1:]), 1, 1),
            "eq?": (same, 2, 2),
            "eqv?": (same, 2, 2),
            "equal?": (deep, 2, 2),
            "vector": (lambda *items: Vector(items), 0, None),
            "vector->list": (lambda vector: self.make(_vector(vector).items), 1, 1),
            "list->vector": (lambda value: Vector(self.items(value, "list->vector")), 1, 1),
            "vector-length": (lambda vector: len(_vector(vector).items), 1, 1),
            "vector-ref": (_vector_ref, 2, 2),
        }
        for name, holds in (("q", same), ("v", same), ("oc", deep)):
            found["ass" + name] = (self.find(holds, "ass" + name), 2, 2)
        for name, holds in (("memq", same), ("memv", same), ("member", deep)):
            found[name] = (self.find(holds, name), 2, 2)
        return found


def _vector(value: Value) -> Vector:
    if not isinstance(value, Vector):
        raise SbplFault(f"{describe(value)} is not a vector")
    return value


def _vector_ref(value: Value, index: Value) -> Value:
    items, at = _vector(value).items, integer(index, "vector-ref")
    if not 0 <= at < len(items):
        raise SbplFault("vector-ref: the index is out of range")
    return items[at]


Step = Generator[Wanted, Value, Value]


def _mapped(name: str, procedure: Value, *lists: Value) -> Step:
    """`map`, and `for-each`, which gives no list."""
    results = []
    for arguments in zip(*(list(elements(items, f"what {name} takes")) for items in lists), strict=False):
        results.append((yield ProcedureCall(procedure, arguments)))
    return scheme_list(results) if name == "map" else True


def _parted(name: str, predicate: Value, items: Value) -> Step:
    """`partition`: the items that have a property, and those that don't; of `filter` the first only."""
    selected: list[Value] = []
    other: list[Value] = []
    for item in list(elements(items, f"what {name} takes")):
        (selected if is_true((yield ProcedureCall(predicate, [item]))) else other).append(item)
    return scheme_list(selected if name == "filter" else [scheme_list(selected), scheme_list(other)])


def _foldr(procedure: Value, start: Value, items: Value) -> Step:
    """TinyScheme's `foldr`, which folds from the left all the same: `(f (f start a) b)`."""
    for item in list(elements(items, "what foldr takes")):
        start = yield ProcedureCall(procedure, [start, item])
    return start


def _flatten(machine: Machine, value: Value) -> Value:
    """Apple's `flatten`: the elements of a list and of the lists in it, however deep."""
    found: list[Value] = []
    pending = [value]
    while pending:
        machine.charge(1)
        item = pending.pop()
        if isinstance(item, Pair):
            pending.extend((item.cdr, item.car))
        elif item is not NIL:
            found.append(item)
    return scheme_list(found)


def _apply_procedure(procedure: Value, *arguments: Value) -> FormResult:
    if not arguments:
        return ProcedureCall(procedure, [])
    return ProcedureCall(procedure, [*arguments[:-1], *elements(arguments[-1], "the last argument of apply")])
    yield


def _raise_error(message: Value, *rest: Value) -> Value:
    texts = [
        message if isinstance(message, str) else write_datum(message),
        *(write_datum(item) for item in rest),
    ]
    raise SbplFault(readable(" ".join(texts)[:500]))


def core_procedures(machine: Machine) -> dict[Symbol, Value]:
    """The procedures of this module, by name."""
    table = {**number_procedures(), **_tests(), **_Lists(machine).table()}
    for length in range(1, 5):
        for number in range(2**length):
            path = format(number, f"0{length}b").replace("0", "a").replace("1", "d")
            table[f"c{path}r"] = (_pair_accessor(path), 1, 1)
    for name in ("error", "throw"):
        table[name] = (_raise_error, 1, None)
    for name in ("display", "write", "newline", "print", "gc", "gc-verbose"):
        table[name] = (lambda *_: NIL, 0, None)
    found: dict[Symbol, Value] = {symbol(name): Procedure(name, *entry) for name, entry in table.items()}
    for name, call, least, most in (
        ("map", functools.partial(_mapped, "map"), 2, None),
        ("for-each", functools.partial(_mapped, "for-each"), 2, None),
        ("filter", functools.partial(_parted, "filter"), 2, 2),
        ("partition", functools.partial(_parted, "partition"), 2, 2),
        ("foldr", _foldr, 3, 3),
        ("apply", _apply_procedure, 1, None),
    ):
        found[symbol(name)] = Steps(name, call, least, most)
    return found
