"""The gate computes the facts about a filter once: all renderings of a profile have the same filter."""

from __future__ import annotations

from types import ModuleType

import pytest

from sandwright.evaluate import boundary
from sandwright.evaluate.explain import calls
from sandwright.methods import registry
from support.gateplants import policy_for


@pytest.mark.parametrize(
    ("method", "module", "name"),
    [
        ("bwrap", calls, "run_program"),
        ("bwrap", boundary, "decide_by_name"),
        ("docker", calls, "load_profile_json"),
        ("docker", boundary, "decide_by_name"),
    ],
)
def test_a_second_rendering_asks_no_filter_again(
    monkeypatch: pytest.MonkeyPatch, method: str, module: ModuleType, name: str
) -> None:
    registry.render(policy_for(method), method)
    work, asked = getattr(module, name), list[str]()

    def counted(*words: object, **options: object) -> object:
        asked.append(name)
        return work(*words, **options)

    monkeypatch.setattr(module, name, counted)
    registry.render(policy_for(method, "{deny: [$PROJECT/other]}"), method)
    assert not asked
