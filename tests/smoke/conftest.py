"""What the tests of smoke runs share: a small real image, and this machine's facts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandwright import process
from sandwright.host import HostFacts, collect_host
from sandwright.smoke.witness import Witness, witness
from smoke.small_image import PYTHON, SmallImage, make_small_image


@pytest.fixture(scope="session")
def host() -> HostFacts:
    return collect_host()


@pytest.fixture(scope="session")
def small_image(tmp_path_factory: pytest.TempPathFactory) -> SmallImage:
    if process.find(PYTHON) is None:
        pytest.skip(f"{PYTHON} is not installed")
    return make_small_image(tmp_path_factory.mktemp("small-image"))


@pytest.fixture
def listening() -> Iterator[Witness]:
    with witness() as hearing:
        yield hearing
