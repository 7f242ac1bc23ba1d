"""Ports between the host's loopback and that of an account's sandbox; root makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ownedprojects import POLICY, Project
from support.ports import PortsPlace, only_the_listed_is_reached, only_the_listed_of_the_host_is_reached

pytestmark = pytest.mark.needs("busybox")


@pytest.fixture
def place(project: Project) -> PortsPlace:
    def launch(network: str) -> Path:
        return project.rendered(POLICY.replace("network: {mode: none}", f"network: {{{network}}}"))

    return PortsPlace(launch, project.environ, project.root)


def test_a_server_inside_is_reached_on_its_port_only(place: PortsPlace) -> None:
    only_the_listed_is_reached(place)


def test_a_server_of_the_host_is_reached_inside_on_its_port_only(place: PortsPlace) -> None:
    only_the_listed_of_the_host_is_reached(place)
