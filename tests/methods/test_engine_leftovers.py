"""What a killed session leaves with an engine is found by its label and name, and nothing else is."""

from __future__ import annotations

import uuid

import pytest

from sandwright import process
from sandwright.errors import HostError
from sandwright.methods.contract import Leftover
from sandwright.methods.engines import LABEL
from sandwright.methods.registry import backend

ENGINES = [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("docker", "podman")]


@pytest.fixture
def names() -> list[str]:
    return [f"sandwright-{uuid.uuid4()}-inside", f"other-{uuid.uuid4()}", f"sandwright-{uuid.uuid4()}"]


@pytest.mark.parametrize("engine", ENGINES)
def test_networks(engine: str, names: list[str]) -> None:
    """Ours goes; one of another name, and one without our label, stay."""
    method = backend(engine)
    ours, foreign, unlabelled = names
    try:
        for name, labels in ((ours, [f"{LABEL}=1"]), (foreign, [f"{LABEL}=1"]), (unlabelled, [])):
            options = [word for label in labels for word in ("--label", label)]
            process.run(engine, "network", "create", "--internal", *options, name, timeout=60)
        found = [each for each in method.leftovers(()) if each.name in names]
        assert found == [Leftover(engine, "network", ours)]
        method.remove(found[0])
        assert ours not in {each.name for each in method.leftovers(())}
        with pytest.raises(HostError, match="not ours"):
            method.remove(Leftover(engine, "network", foreign))
        listed = process.run(engine, "network", "ls", "--format", "{{.Name}}", timeout=60).text.split()
        assert {foreign, unlabelled} <= set(listed)
    finally:
        for name in names:
            process.run(engine, "network", "rm", name, timeout=60, check=False)
