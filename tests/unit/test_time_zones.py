"""The list of time zones against the machine's own database, where it has one."""

from __future__ import annotations

import zoneinfo

import pytest

from zkpcp.core.time_zones import NAMES


def test_no_zone_of_this_machine_is_missing() -> None:
    known = zoneinfo.available_timezones() - {"Factory", "localtime"}
    if not known:
        pytest.skip("there is no time zone database on this machine")

    assert known - NAMES == set()


def test_the_list_holds_names_and_nothing_else() -> None:
    assert {"UTC", "Europe/Lisbon", "America/Argentina/Ushuaia", "Asia/Kathmandu", "Asia/Katmandu"} <= NAMES
    assert not {"Factory", "localtime", "posixrules"} & NAMES
    assert not any(name.startswith(("posix/", "right/", "/")) or ".." in name for name in NAMES)
