"""A registry and a small world of images for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.registryserver import Server, registry_server
from support.smallworld import World, small_world


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with registry_server(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("world"))
