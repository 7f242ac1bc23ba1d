"""Makes up requests that a filter matches, to ask the evaluator about them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from sandwright.evaluate.sbpl.errors import SbplFault
from sandwright.evaluate.sbpl.filters import All, Any, Constant, Filter, How, Not, Test, matches
from sandwright.evaluate.sbpl.network import AddressPattern, Endpoint
from sandwright.evaluate.sbpl.regex import END, RegexProgram, compile_regex, members
from sandwright.evaluate.sbpl.request import SbplRequest

MAX_PROBES = 50
"""The number of requests that are made up for one rule."""

_NAME = "sandwright-probe"
_AT_END = 1 << END


def probes(filters: Sequence[Filter]) -> Iterator[SbplRequest]:
    """Some requests that at least one of the filters matches: none, where we don't know how to make one."""
    made = 0
    for tested in filters:
        for request in _for_filter(tested):
            if made >= MAX_PROBES:
                return
            if matches(tested, request):
                made += 1
                yield request


def _for_filter(tested: Filter) -> Iterator[SbplRequest]:
    match tested:
        case Test():
            yield from _build_requests([tested])
        case Any(filters):
            for part in filters:
                yield from _for_filter(part)
        case All():
            for choice in _choices(tested):
                yield from _build_requests(choice)
        case Not():
            yield SbplRequest(f"/{_NAME}/{_NAME}")


def _choices(tested: All) -> Iterator[list[Test]]:
    """Sets of tests that together satisfy a `require-all`, taking each of the first alternative in turn."""
    fixed: list[Test] = []
    alternatives: list[Any] = []
    for part in tested.filters:
        match part:
            case Test():
                fixed.append(part)
            case All():
                fixed.extend(next(_choices(part), []))
            case Any():
                alternatives.append(part)
            case Not():
                pass
    others = [
        test for choice in alternatives[1:] for part in choice.filters[:1] for test in _satisfying_tests(part)
    ]
    if not alternatives:
        yield fixed
    for choice in alternatives[:1]:
        for part in choice.filters:
            yield [*fixed, *_satisfying_tests(part), *others]


def _satisfying_tests(part: Filter) -> list[Test]:
    """One set of tests that satisfies a filter, if it is easily found."""
    if isinstance(part, Test):
        return [part]
    return next(_choices(part), []) if isinstance(part, All) else []


def _build_requests(tests: Sequence[Test]) -> Iterator[SbplRequest]:
    """Requests that match all tests, with one value and then another for a path."""
    for deeper in (False, True):
        request = SbplRequest()
        values: dict[str, tuple[str, ...]] = {}
        for test in tests:
            _fill_request(request, values, test, deeper=deeper)
        request.values = values
        yield request


def _fill_request(
    request: SbplRequest, values: dict[str, tuple[str, ...]], test: Test, *, deeper: bool
) -> None:
    match test.value:
        case str() if test.key == "path":
            request.path = _matching_path(request.path, test, deeper=deeper)
        case str():
            values[test.key] = (_matching_text(test, deeper=deeper),)
        case Constant(name=name):
            values[test.key] = (name,)
        case AddressPattern():
            request.network = True
            setattr(request, "remote" if test.key == "remote" else "local", _endpoint(test.value))
            request.transport = "tcp" if test.value.protocol == "ip" else test.value.protocol
        case int():
            values[test.key] = ("true" if test.how is How.FLAG else str(test.value),)
        case _ if test.how is How.UNIX:
            request.unix = True
            request.path = request.path or f"/private/{_NAME}"


def _matching_path(earlier: str | None, test: Test, *, deeper: bool) -> str:
    """A path that a test matches, and `earlier` too if that is more special."""
    made = _matching_text(test, deeper=deeper)
    made = made if made.startswith("/") else f"/{_NAME}/{made}"
    if earlier is None:
        return made
    return earlier if earlier.startswith(made.rstrip("/") + "/") else made


def _matching_text(test: Test, *, deeper: bool) -> str:
    assert isinstance(test.value, str)
    match test.how:
        case How.SUBPATH:
            return f"{test.value.rstrip('/')}/{_NAME}" if deeper or test.value == "/" else test.value
        case How.PREFIX:
            return f"{test.value}{_NAME}" if deeper else test.value
        case How.REGEX:
            return sample(test.value) or ""
        case _:
            return test.value


def _endpoint(pattern: AddressPattern) -> Endpoint:
    loopback = pattern.host == "localhost"
    return Endpoint(pattern.family, loopback, 443 if pattern.port is None else pattern.port)


@functools.lru_cache(maxsize=1024)
def sample(pattern: str) -> str | None:
    """A short text that a regex matches, in octets; None when nothing does."""
    try:
        program = compile_regex(pattern)
    except SbplFault:
        return None
    if program.nullable:
        return ""
    came_from: dict[int, int | None] = {}
    layer = dict.fromkeys(members(program.first))
    while layer:
        came_from.update(layer)
        for position in layer:
            if program.last >> position & 1:
                return _accepted_text(program, came_from, position)
        following: dict[int, int | None] = {}
        for position in layer:
            ended = program.accepts[position] == _AT_END
            for reached in members(program.follow[position]):
                if reached not in came_from and not (ended and program.accepts[reached] != _AT_END):
                    following.setdefault(reached, position)
        layer = following
    return None


def _accepted_text(program: RegexProgram, came_from: dict[int, int | None], last: int) -> str:
    letters: list[str] = []
    position: int | None = last
    while position is not None:
        letters.append(_readable_octet(program.accepts[position]))
        position = came_from[position]
    return "".join(reversed(letters))


def _readable_octet(codes: int) -> str:
    """A readable octet among the codes; nothing for the end of the text."""
    if codes == _AT_END:
        return ""
    for letter in "ax0/A._-" + "".join(map(chr, range(33, 127))):
        if codes >> ord(letter) & 1:
            return letter
    return chr((codes & -codes).bit_length() - 1)
