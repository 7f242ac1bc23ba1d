"""A registry for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.registryserver import Server, registry_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with registry_server(tmp_path_factory.mktemp("registry")) as running:
        yield running
