"""A default run has every value, but not every combination: `invoke test --thorough` has all of them."""

from __future__ import annotations

import itertools

import pytest

from support.thorough import covering, representative

AXES = [
    ([1],),
    ([1, 2, 3], "ab"),
    ("ab", [1, 2, 3]),
    ("ab", "cd"),
    ("abc", "defg", "hi", range(5)),
    ("abcdef", "ghi", "jk"),
]


@pytest.mark.parametrize("axes", AXES)
def test_each_value_occurs_and_nothing_else(axes: tuple[list[object], ...]) -> None:
    found = [each.values for each in covering(*axes, thorough=False)]
    every = list(itertools.product(*axes))
    assert set(found) <= set(every)
    assert len(found) == max(map(len, axes)) == len(set(found))
    for number, axis in enumerate(axes):
        assert {each[number] for each in found} == set(axis)


@pytest.mark.parametrize("axes", AXES)
def test_a_thorough_run_has_all(axes: tuple[list[object], ...]) -> None:
    found = [each.values for each in covering(*axes, thorough=True)]
    assert found == list(itertools.product(*axes))


def test_it_is_the_same_each_time() -> None:
    found = [each.values for each in covering("abc", "de", thorough=False)]
    assert found == [("a", "d"), ("b", "e"), ("c", "e")]


@pytest.mark.parametrize("thorough", [False, True])
def test_marks_stay_at_their_values(thorough: bool) -> None:
    marked = pytest.param("a", marks=pytest.mark.needs("bwrap"))
    found = covering([marked, "b"], [1, 2], thorough=thorough)
    assert all(bool(each.marks) == ("a" in each.values) for each in found)


@pytest.mark.parametrize("axes", [(), ([],), ("ab", [])])
@pytest.mark.parametrize("thorough", [False, True])
def test_nothing_to_try_is_an_error(axes: tuple[list[object], ...], thorough: bool) -> None:
    with pytest.raises(ValueError, match="would try nothing"):
        covering(*axes, thorough=thorough)


def test_the_named_ones_in_the_order_of_all() -> None:
    assert representative({"a": 1, "b": 2, "c": 3}, "c", "a", thorough=False) == ["a", "c"]
    assert representative(["a", "b", "c"], "c", "a", thorough=True) == ["a", "b", "c"]


@pytest.mark.parametrize("names", [(), ("d",), ("a", "d"), ("a", "a")])
@pytest.mark.parametrize("thorough", [False, True])
def test_a_name_that_is_none_of_them_is_an_error(names: tuple[str, ...], thorough: bool) -> None:
    with pytest.raises(ValueError, match="no cases"):
        representative(["a", "b", "c"], *names, thorough=thorough)


def test_a_parameter_set_has_its_id_or_values_as_name() -> None:
    cases = [pytest.param("a", 1), pytest.param("b", 2, id="second"), pytest.param("c", 3)]
    assert representative(cases, "a-1", "second", thorough=False) == cases[:2]
    assert representative(cases, "c-3", thorough=True) == cases
