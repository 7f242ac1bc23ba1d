"""The procedures that make filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sandwright.evaluate.sbpl.datum import Symbol, Value
from sandwright.evaluate.sbpl.errors import SbplFault
from sandwright.evaluate.sbpl.filters import All, Any, Constant, Filter, How, Not, Test
from sandwright.evaluate.sbpl.machine import Machine, Procedure, describe
from sandwright.evaluate.sbpl.network import address_pattern
from sandwright.evaluate.sbpl.regex import compile_regex
from sandwright.evaluate.sbpl.vocabulary import FilterKind, vocabulary

_HOW = {"literal": How.LITERAL, "subpath": How.SUBPATH, "prefix": How.PREFIX, "regex": How.REGEX}
_NEVER = (
    "entitlement-value",
    "entitlement-value-regex",
    "%entitlement-load",
    "%entitlement-boolean",
    "%entitlement-string",
    "%entitlement-string-regex",
    "executable-bundle",
    "container",
    "application-group",
    "system-container",
    "system-group",
)
"""Filters about entitlements and containers, which a program that sandbox-exec starts does not have."""

_NAMED: dict[str, tuple[str, str]] = {
    "tty": ("vnode-type", "TTY"),
    "debug-mode": ("system-attribute", "sandbox-debug-mode"),
    "process-is-plugin": ("process-attribute", "is-plugin"),
    "process-is-installer": ("process-attribute", "is-installer"),
    "datavault-file-filter": ("file-attribute", "datavault"),
    "rootless-file-filter": ("file-attribute", "sip-protected"),
}
"""Procedures without arguments that stand for a filter with a constant."""


class FilterProcedure(Procedure):
    """A procedure that makes filters of one kind. `kind.open` ones take names that nothing binds, too."""

    def __init__(self, name: str, kind: FilterKind, call: Callable[..., object]) -> None:
        super().__init__(name, call, 0 if kind.argument == "flag" else 1, None)
        self.kind = kind
        if kind.open:
            self.named = lambda unbound: Constant(unbound.name, None)


def filter_procedures(machine: Machine) -> dict[str, Procedure]:
    """All of them by name; their results are charged to `machine`."""
    words = vocabulary()
    found: dict[str, Procedure] = {}
    for name, kind in words.filters.items():
        maker = _address_maker(name, machine) if kind.argument == "address" else _maker(name, kind, machine)
        found[name] = FilterProcedure(name, kind, maker)
    for name in _NEVER:
        found[name] = Procedure(name, _never_matching(name), 0, None)
    for name, (key, constant) in _NAMED.items():
        found[name] = Procedure(name, _constant_maker(key, constant), 0, 0)
    for name in ("require-all", "require-any"):
        found[name] = Procedure(name, _combine_filters(name), 1, None)
    found["require-not"] = Procedure("require-not", _negation, 1, 1)
    found["require-entitlement"] = Procedure(
        "require-entitlement", _never_matching("require-entitlement"), 1, 2
    )
    found["path-ancestors"] = Procedure("path-ancestors", _path_ancestors, 1, None)
    return found


def _maker(name: str, kind: FilterKind, machine: Machine) -> Callable[..., Filter]:
    def make(*arguments: Value) -> Filter:
        if not arguments:
            return Test(name, kind.key, How.FLAG, 1, machine.span)
        return one_of(
            [_test(name, kind, number, argument, machine) for number, argument in enumerate(arguments, 1)]
        )

    return make


def _test(name: str, kind: FilterKind, number: int, argument: Value, machine: Machine) -> Test:
    wrong = f"{name}: argument {number} must be: "
    if kind.pattern is not None:
        if not isinstance(argument, str):
            raise SbplFault(wrong + "string")
        if kind.pattern == "regex":
            machine.charge(_check_regex(name, argument))
        return Test(name, kind.key, _HOW[kind.pattern], argument, machine.span)
    if kind.argument == "flag":
        if not isinstance(argument, bool):
            raise SbplFault(wrong + "boolean")
        return Test(name, kind.key, How.FLAG, int(argument), machine.span)
    if isinstance(argument, Constant):
        return Test(name, kind.key, How.CONSTANT, argument, machine.span)
    if isinstance(argument, bool) or not isinstance(argument, int):
        raise SbplFault(wrong + "integer")
    if kind.argument == "bits":
        return Test(name, kind.key, How.BITS, argument, machine.span)
    return Test(name, kind.key, How.CONSTANT, _constant(kind, argument), machine.span)


def _check_regex(name: str, pattern: str) -> int:
    """Compile a regex to check it; give the cost."""
    try:
        program = compile_regex(pattern)
    except SbplFault as fault:
        raise SbplFault(f"{name}: {fault.message}") from None
    return len(pattern) + program.cost


def _constant(kind: FilterKind, number: int) -> int | Constant:
    for name, value in kind.constants.items():
        if value == number:
            return Constant(name, number)
    return number


def one_of(filters: Sequence[Filter]) -> Filter:
    """The filter itself, or any of several."""
    return filters[0] if len(filters) == 1 else Any(tuple(filters))


def _never_matching(name: str) -> Callable[..., Filter]:
    def make(*arguments: Value) -> Filter:  # noqa: ARG001
        return Test(name, name, How.NEVER)

    return make


def _constant_maker(key: str, constant: str) -> Callable[[], Filter]:
    kind = vocabulary().filters[key]
    return lambda: Test(key, key, How.CONSTANT, Constant(constant, kind.constants[constant]))


def _filter_arguments(name: str, arguments: Sequence[Value]) -> list[Filter]:
    found: list[Filter] = []
    for number, argument in enumerate(arguments, 1):
        if not isinstance(argument, Test | All | Any | Not):
            raise SbplFault(f"{name}: argument {number} must be: filter, not {describe(argument)}")
        found.append(argument)
    return found


def _combine_filters(name: str) -> Callable[..., Filter]:
    kind = All if name == "require-all" else Any
    return lambda *arguments: kind(tuple(_filter_arguments(name, arguments)))


def _negation(argument: Value) -> Filter:
    return Not(_filter_arguments("require-not", [argument])[0])


def _address_maker(name: str, machine: Machine) -> Callable[..., Filter]:
    def make(protocol: Value, *addresses: Value) -> Filter:
        if not isinstance(protocol, Symbol):
            raise SbplFault(f"{name}: argument 1 must be: network protocol, not {describe(protocol)}")
        if protocol.name in ("unix", "unix-socket"):
            unix = Test(name, name, How.UNIX, None, machine.span)
            return All((unix, one_of(_filter_arguments(name, addresses)))) if addresses else unix
        texts: list[str | None] = []
        for number, address in enumerate(addresses, 2):
            if not isinstance(address, str):
                raise SbplFault(f"{name}: argument {number} must be: string")
            texts.append(address)
        key = vocabulary().filters[name].key
        patterns = [address_pattern(protocol.name, text) for text in texts or [None]]
        return one_of([Test(name, key, How.ADDRESS, pattern, machine.span) for pattern in patterns])

    return make


def _path_ancestors(*paths: Value) -> Filter:
    """Literals of all directories above the paths, `/` included, the paths themselves not."""
    found: list[Filter] = []
    for path in paths:
        if not isinstance(path, str):
            raise SbplFault("path-ancestors: the arguments must be: string")
        if not path.startswith(("/", "${")):
            raise SbplFault("path must start with a /")
        names = path.rstrip("/").split("/")
        ancestors = ["/".join(names[:count]) or "/" for count in range(1, len(names))]
        found.extend(Test("literal", "path", How.LITERAL, ancestor) for ancestor in ancestors)
    return Any(tuple(found))
