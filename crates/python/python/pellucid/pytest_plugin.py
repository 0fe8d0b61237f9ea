"""Plugin of pytest: the fixture `pellucid`, a drive in service that fails on demand.

    @pytest.mark.pellucid("jasmine", faults=["power-cut@1000ops"])
    def test_my_database(pellucid):
        with pellucid.open() as disk:
            ...

Without the mark it is a `jasmine` without planned faults. The mark takes the arguments of `pellucid.serve`.
"""
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .serving import Served

DRIVE = "jasmine"


def pytest_configure(config: pytest.Config) -> None:
    """Makes the mark known."""
    config.addinivalue_line("markers", "pellucid(drive, **options): the drive of the fixture `pellucid`, as `pellucid.serve` takes it")


@pytest.fixture(name="pellucid")
def served_drive(request: pytest.FixtureRequest) -> "Iterator[Served]":
    """A drive in service, which fails on demand: `fault`, `power_cut`, `open`, `uri`, `status`."""
    from .serving import serve

    mark = request.node.get_closest_marker("pellucid")
    drives, options = (mark.args, mark.kwargs) if mark else ((), {})
    with serve(*(drives or (DRIVE,)), **options) as drive:
        yield drive
