"""SNIA's tests on modelled drives."""
import pytest

import pellucid as pl
from pellucid import snia

KIB = 1024
#: A drive of a few MiB, which a test fills in a moment.
TINY = """
[drive.media]
channels = 2
ways = 2
dies = 1
planes = 1
blocks = 24
pages = 16
page_size = "4KiB"
spare_size = 256
sector_size = 512
unit_size = "4KiB"
cell = "slc"
[drive.media.timing]
read = "50us"
program = "500us"
erase = "3ms"
channel_rate = "400MB/s"
[drive.ftl]
over_provisioning = 0.35
durability = "volatile"
[drive.buffer]
entries = 32
"""


@pytest.fixture
def tiny():
    """A drive of a few blocks."""
    return pl.Drive(toml=TINY)


@pytest.mark.parametrize(("values", "steady"), [
    ([100, 100, 100, 100, 100], True),
    # Range of 20 %, no slope.
    ([90, 110, 100, 110, 90], True),
    # Range of 20.1 %.
    ([89.9, 110, 100, 110, 90.1], False),
    # A slope of 2.5 % a round is 10 % over the window.
    ([95, 97.5, 100, 102.5, 105], True),
    ([94.5, 97.25, 100, 102.75, 105.5], False),
    # It may fall as much as it may rise.
    ([105.5, 102.75, 100, 97.25, 94.5], False),
])
def test_a_window_is_steady_by_range_and_slope(values, steady):
    window = snia.Window.of(values)
    assert window.rounds == (1, 2, 3, 4, 5) and window.average == pytest.approx(100)
    assert window.is_steady == steady


def test_the_best_line_is_that_of_least_squares():
    numpy = pytest.importorskip("numpy")
    values = [3.0, 9.5, 4.0, 7.0, 5.5]
    assert snia.Window.of(values).slope == pytest.approx(numpy.polyfit(range(5), values, 1)[0])
    assert snia.Window.of(values[:4]) is None
    assert snia.steady_at([500, 300, 200, 100, 100, 100, 100, 101, 100]) == 8
    assert snia.steady_at([1, 2, 4, 8, 16, 32]) is None


def test_iops_has_a_round_for_each_mix_and_block_size(tiny):
    found = snia.iops(tiny, round_seconds=0.005, threads=1, iodepth=4, rounds_max=6)
    assert 5 <= len(found.rounds) <= 6
    sector = tiny.run(pl.Job(rw="randread", number_ios=1)).report.drive.sector_bytes
    blocks = [size for size in (1024 * KIB, 128 * KIB, 64 * KIB, 32 * KIB, 16 * KIB, 8 * KIB, 4 * KIB, 512) if size % sector == 0]
    assert list(found.rounds[0]) == [(mix, block) for mix in (100, 95, 65, 50, 35, 5, 0) for block in blocks]
    assert found.tracked == [(0, 4 * KIB), (65, 64 * KIB), (100, 1024 * KIB)]
    frame = found.frame()
    assert len(frame) == len(found.rounds) * 7 * len(blocks)
    window = found.window((0, 4 * KIB))
    assert window.values == tuple(frame[(frame.read_percent == 0) & (frame.block_bytes == 4096)].iops)[-5:]
    # It ends with the first round that is steady.
    steady = [snia.steady_at(found.values(point)) for point in found.tracked]
    assert found.is_steady == all(found.window(point).is_steady for point in found.tracked)
    assert not found.is_steady or max(at or 99 for at in steady) <= len(found.rounds)
    # A mix of reads only writes nothing; one of writes only writes all.
    assert frame[frame.read_percent == 100].written_bytes.sum() == 0 and frame[frame.read_percent == 0].written_bytes.min() > 0
    text = str(found)
    assert "SNIA PTS: IOPS" in text and "0/100 4 KiB" in text and "range (at most 20%)" in text and "65/35" in text
    assert ("left out" in text) == (sector > 512)
    for draw, panels in ((found.plot.convergence, 3), (found.plot.steady_state, 9), (found.plot.measured, 7)):
        assert len(draw().axes[0].lines) == panels
    assert "<table>" in found._repr_html_()


def test_throughput_and_latency_measure_what_they_are_called(tiny):
    through = snia.throughput(tiny, round_seconds=0.01, rounds_max=5)
    cell = through.rounds[0][0, 1024 * KIB]
    assert through.values((0, 1024 * KIB))[0] == pytest.approx(cell.iops * 1.048576, rel=1e-6)
    assert list(through.rounds[0]) == [(mix, block) for mix in (100, 0) for block in (128 * KIB, 1024 * KIB)]
    late = snia.latency(tiny, round_seconds=0.005, rounds_max=5)
    # One request at a time: what completes in a second is the inverse of its latency.
    read = late.rounds[0][100, 8 * KIB]
    assert read.mean_us * read.iops == pytest.approx(1e6, rel=0.1) and read.max_us >= read.mean_us
    assert late.tracked == [(0, 4 * KIB)] and "largest of the measurement window" in str(late)


def test_write_saturation_begins_new_and_ends_after_four_capacities(tiny):
    found = snia.write_saturation(tiny, round_seconds=0.05)
    written = [cells[0, 4 * KIB].written_bytes for cells in found.rounds]
    assert sum(written) >= 4 * found.capacity_bytes > sum(written[:-1])
    # The new drive is faster than the full one.
    values = found.values((0, 4 * KIB))
    assert values[0] > 1.5 * values[-1]
    assert found.plot.convergence().axes[0].lines[0].get_xdata()[-1] == pytest.approx(sum(written) / found.capacity_bytes)
    assert found.rounds == snia.write_saturation(tiny, round_seconds=0.05).rounds


def test_what_a_test_cannot_do_is_refused(tiny):
    for refused, why in (
        (lambda: snia.iops(tiny.age(overwrite=0)), "without a past"),
        (lambda: snia.iops(tiny, round_seconds=0), "above 0"),
        (lambda: snia.latency(tiny, rounds_max=4), "5, which a measurement window has"),
    ):
        with pytest.raises(pl.Error, match=why):
            refused()
