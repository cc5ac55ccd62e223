from __future__ import annotations

from collections import Counter

import pytest

from nodes.agent.hosts import hosts
from nodes.inventory import problems


def test_the_full_fleet_is_the_one_that_gangway_is_sized_for() -> None:
    fleet = hosts("full")
    assert Counter(host.gpu_type for host in fleet) == {"H100": 875, "A100": 250, "L40S": 125}
    assert Counter(host.az for host in fleet) == {"az1": 625, "az2": 625}
    racks = Counter((host.az, host.rack) for host in fleet)
    assert len(racks) == 32 and set(racks.values()) <= set(range(31, 43))
    assert {host.spot for host in fleet} == {None, "aws", "gcp"}


def test_the_small_fleet_has_racks_that_hold_eight_hosts_of_one_type() -> None:
    fleet = hosts("small")
    assert len(fleet) == 64
    assert max(Counter((host.rack, host.gpu_type) for host in fleet if not host.spot).values()) >= 8


@pytest.mark.parametrize("size", ["small", "full"])
def test_every_host_may_register_under_a_name_of_its_own_in_a_rack_of_one_type(size: str) -> None:
    fleet = hosts(size)
    assert len({host.name for host in fleet}) == len(fleet)
    assert [found for host in fleet for found in problems(host)] == []
    assert len({(host.az, host.rack, host.gpu_type) for host in fleet}) == len({(host.az, host.rack) for host in fleet})
