"""SNIA's tests on modelled drives."""
import csv
import os
import subprocess
import sys
from pathlib import Path

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
        (lambda: snia.iops(tiny, round_seconds=0), "from 0.001 on"),
        (lambda: snia.latency(tiny, rounds_max=4), "5, which a measurement window has"),
    ):
        with pytest.raises(pl.Error, match=why):
            refused()


EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples/snia").glob("*.toml"))


def swept(plan, *more):
    command = [os.environ["PELLUCID"], "sweep", plan, "--python", sys.executable, *more]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_plan_of_snia_leaves_tables_and_figures(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    plan = tmp_path / "t.toml"
    plan.write_text('snia = "throughput"\ndrive = "tiny.toml"\nround_seconds = 0.02\n[overrides]\n"drive.ftl.over_provisioning" = 0.4\n')
    done = swept(plan)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "t.sweep"
    names = ["convergence.svg", "measured.svg", "plan.toml", "report.html", "report.txt", "rounds.csv", "steady_state.svg"]
    assert sorted(path.name for path in out.iterdir()) == names
    drive = pl.Drive(tmp_path / "tiny.toml", overrides={"drive.ftl.over_provisioning": 0.4})
    same = snia.throughput(drive, round_seconds=0.02)
    assert (out / "report.txt").read_text() == str(same) and str(same) in done.stdout
    with open(out / "rounds.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["iops"]) for row in rows] == [row["iops"] for row in same.rows()]
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 3 and "Steady state: reached in round" in page
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert swept(plan).returncode == 0 and {path.name: path.read_bytes() for path in out.iterdir()} == first


def test_a_plan_that_is_not_steady_says_so_by_its_exit_status(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    plan = tmp_path / "t.toml"
    # Rounds of so little time measure the pauses of GC one by one.
    plan.write_text('snia = "latency"\ndrive = "tiny.toml"\nround_seconds = 0.002\nrounds_max = 6\nseed = 3\n')
    done = swept(plan)
    assert done.returncode == 1
    assert "Steady state: not reached in 6 rounds" in done.stdout
    assert (tmp_path / "t.sweep/report.html").exists()


@pytest.mark.parametrize(("text", "sentence"), [
    ('snia = "iop"\ndrive = "jasmine"', "snia = 'iop': not allowed; allowed: iops, throughput, latency, write-saturation"),
    ('snia = "iops"', "drive = None: not allowed"),
    ('snia = "iops"\ndrive = "jasmine"\nseeds = 3', "seeds = 3: not allowed; allowed: a key of snia, drive"),
    ('snia = "iops"\ndrive = "jasmine"\nrounds_max = "9"', "rounds_max = '9': not allowed; allowed: a whole number"),
    ('snia = "latency"\ndrive = "jasmine"\niodepth = 4', "iodepth = 4: not allowed"),
    ('snia = "iops"\ndrive = "jasmine"\nround_seconds = 0', "round_seconds = 0: not allowed"),
])
def test_a_plan_that_cannot_be_is_refused(tmp_path, text, sentence):
    plan = tmp_path / "t.toml"
    plan.write_text(text)
    done = swept(plan)
    assert done.returncode == 2 and sentence in done.stderr
    assert not (tmp_path / "t.sweep").exists()


def test_the_examples_are_of_all_four_tests():
    from pellucid.snia_plan import TESTS, SniaPlan

    plans = [SniaPlan(path.read_text(), path.parent) for path in EXAMPLES]
    assert sorted(plan.name for plan in plans) == sorted(TESTS) == [path.stem for path in EXAMPLES]


# Steady state as an option of a run.


def test_a_run_ends_once_it_is_steady(tiny):
    job = pl.Job(rw="randwrite", bs="4k", iodepth=4, time_based=True, runtime="60s")
    drive = pl.Drive(toml=TINY, run={"steady_state": "snia", "steady_round": "100ms"})
    report = drive.run(job, precondition="fill").report
    steady = report.steady_state
    assert steady.reached and steady.window_rounds == 5 and len(steady.round_values) >= 5
    # The report's own judgement is that of the rule, and no window before holds it.
    assert snia.steady_at(steady.round_values) == len(steady.round_values)
    assert steady.reached_seconds == pytest.approx(0.1 * len(steady.round_values))
    assert steady.reached_seconds <= report.simulated_seconds < steady.reached_seconds + 0.1
    window = snia.Window.of(steady.round_values)
    assert steady.average == pytest.approx(window.average) and steady.range_share == pytest.approx(window.range / window.average)
    assert abs(steady.slope_share) == pytest.approx(abs(window.slope) / window.average, abs=1e-12)
    # The rounds are those of the series of a run that goes on.
    whole = tiny.run(job, precondition="fill", requests=True).requests.to_pandas()
    second = whole[(whole.completed_ns - whole.at_ns.min() >= 100e6) & (whole.completed_ns - whole.at_ns.min() < 200e6)]
    assert steady.round_values[1] == pytest.approx(len(second) / 0.1)


def test_work_that_ends_before_it_is_steady_says_so(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    work = ["--rw", "randwrite", "--bs", "4k", "--time-based", "--runtime", "250ms", "--steady-state", "snia", "--steady-round", "100ms"]
    done = subprocess.run([os.environ["PELLUCID"], "run", tmp_path / "tiny.toml", *work], capture_output=True, text=True)
    assert done.returncode == 1
    assert "snia: NOT reached in 2 rounds of 100 ms" in " ".join(done.stdout.split())
    assert "steady state, snia: NOT reached in 2 rounds" in done.stderr


def test_age_knows_snias_rule(tmp_path):
    drive = pl.Drive("netbook-ssd", overrides={"media.blocks": 128, "ftl.over_provisioning": 0.2})
    aged = drive.age(steady="snia")
    (ageing,) = aged.ageing
    values = [amplification for _, amplification in ageing["passes"]]
    assert snia.steady_at(values) == len(values) and ageing["reason"].startswith("steady by SNIA's rule")
    assert "by SNIA's rule" in aged.past
    with pytest.raises(pl.Error, match="precondition.steady"):
        drive.age(overwrite=2, steady="snia")


@pytest.mark.parametrize("options, sentence", [
    ({"iodepth": 0}, "iodepth = 0: not allowed; allowed: a whole number from 1 on"),
    ({"threads": 1.5}, "threads = 1.5: not allowed"),
    ({"round_seconds": "1s"}, "round_seconds = '1s': not allowed; allowed: a number of seconds from 0.001 on"),
    ({"round_seconds": 1e-6}, "round_seconds = 1e-06: not allowed"),
])
def test_what_a_test_cannot_be_run_with_is_refused(options, sentence):
    with pytest.raises(pl.Error, match=sentence):
        pl.snia.iops("netbook-ssd", **options)
