"""Drives, runs and results."""
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import threading

import pyarrow
import pyarrow.compute
import pytest

import pellucid as pl

#: What differs between two equal runs.
COST = re.compile(r'^  "(wall_seconds|requests_per_wall_second|peak_memory_bytes)": .*\n', re.MULTILINE)


def of_command(line: str, text: str | None = None) -> str:
    """What the command prints on standard output."""
    words = shlex.split(line)
    assert words[0] == "pellucid"
    done = subprocess.run([os.environ["PELLUCID"], *words[1:]], capture_output=True, text=True, input=text)
    assert done.returncode == 0, done.stderr
    return done.stdout


# The command and the files that it read; a run in Python has none.
PROVENANCE = re.compile(r'\n  "provenance": \{.*?\n  \},', re.S)


def alike(ours: str, theirs: str) -> None:
    assert len(COST.findall(ours)) == 3
    assert PROVENANCE.search(theirs), "the command says where its report is from"
    assert COST.sub("", ours) == COST.sub("", PROVENANCE.sub("", theirs))


def test_a_report_is_the_commands_byte_for_byte(small, job):
    result = small.run(job, seed=7)
    assert "--job rw=randwrite,bs=4k,iodepth=4,number_ios=1000" in result.command_line
    alike(result.json(), of_command(result.command_line))


def test_overrides_in_every_form_are_the_commands(job):
    drive = pl.Drive("netbook-ssd", overrides={"drive.media.blocks": 128}, ftl={"victim": "fifo", "over_provisioning": 0.2})
    result = drive.run(job, pl.Job(rw="randread", bs=("4k", "8k"), runtime="10ms"), precondition="fill")
    assert result.report.overrides["drive.ftl.victim"] == '"fifo"'
    alike(result.json(), of_command(result.command_line))


def test_a_description_in_a_text_is_the_commands_on_standard_input(job):
    text = '[drive]\npreset = "netbook-ssd"\n[drive.media]\nblocks = 128\n'
    result = pl.Drive(toml=text).run(job)
    alike(result.json(), of_command(result.command_line, text))


def test_a_replay_is_the_commands(tmp_path):
    trace = tmp_path / "t.csv"
    trace.write_text("".join(f"{at * 1000},host,0,{'Write' if at % 3 else 'Read'},{at * 8192},4096,10\n" for at in range(500)))
    result = pl.replay("netbook-ssd", pl.Trace(trace, address="fold", time_scale=0.5), requests=False)
    assert result.report.requests == 500
    alike(result.json(), of_command(result.command_line))


def test_the_report_has_attributes_and_paths(small, job):
    report = small.run(job).report
    assert report.requests == report["requests"] == 1000
    assert report.at("directions.write.latency.count") == 1000
    assert report.at("directions.write.nothing") is None
    with pytest.raises(AttributeError, match="there are: .*requests"):
        report.nothing


def test_requests_are_a_table_whose_stages_sum_to_the_latency(small, job):
    frame = small.run(job).requests.to_pandas()
    assert len(frame) == 1000
    assert set(frame.op) == {"write"} and set(frame.status) == {"success"}
    stages = frame.columns[list(frame.columns).index("latency_ns") + 1:list(frame.columns).index("unmapped_sectors")]
    assert (frame[stages].sum(axis=1) == frame.latency_ns).all()
    assert (frame.completed_ns - frame.at_ns == frame.latency_ns).all()


def test_tables_are_data_frames_too(small, job):
    requests = small.run(job).requests
    frame = requests.to_pandas()
    assert requests.latency_ns.mean() == frame.latency_ns.mean() and requests["op"].tolist() == frame.op.tolist()
    assert list(requests) == requests.column_names and requests.head(3).equals(frame.head(3))
    assert "latency_ns" in requests._repr_html_() and "1000 rows" in repr(requests)
    with pytest.raises(AttributeError):
        requests.nothing


def test_latencies_are_told_and_drawn(small, job, tmp_path):
    result = small.run(job)
    assert result.latency.write == result.report.directions.write.latency
    result.latency.plot(columns=2).savefig(tmp_path / "latency.pdf")
    assert (tmp_path / "latency.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(AttributeError, match="there are: read, write"):
        result.latency.writes
    compared = pl.compare([small, small.fork()], job)
    assert len(compared.latency.write) == 2 and compared.latency.plot().get_figwidth() == 3.33


def test_a_disk_has_no_write_amplification(job):
    result = pl.run("wd1502faex", pl.Job(rw="randwrite", bs="4k", number_ios=100))
    report = result.report
    assert (report.write_amplification, report.gc, report.wear, report.media) == (None,) * 4
    assert report.at("write_amplification.total") is None and "amplification" not in str(result)
    with pytest.raises(pl.Error, match="nothing was written"):
        result.plot.write_amplification()


def test_tables_leave_without_a_copy(small, job):
    requests = small.run(job).requests
    first, second = pyarrow.table(requests), pyarrow.table(requests)
    address = lambda table: table["latency_ns"].chunk(0).buffers()[1].address  # noqa: E731
    assert address(first) == address(second)
    assert pyarrow.schema(requests) == first.schema


def test_the_other_tables_are_those_of_the_report(small, job):
    result = small.run(job, precondition="fill")
    report = result.report
    series = result.series.to_pandas()
    assert series.write_requests.tolist() == report.series.write.requests
    operations = result.operations.to_pandas().set_index("cause")
    assert operations.programmed_bytes.sum() == report.write_amplification.programmed_bytes_total
    assert result.dies.to_pandas().busy_share.tolist() == sum(report.utilisation.dies, [])
    blocks = result.blocks.to_pandas()
    good = blocks[blocks.health == "good"]
    assert len(blocks) == report.wear.blocks and good.erases.max() == report.wear.erases.max
    with pytest.raises(pl.Error, match="requests: not kept"):
        small.run(job, requests=False).requests


def test_errors_name_key_value_and_what_is_allowed():
    with pytest.raises(pl.Error) as caught:
        pl.Drive("jasmine", ftl={"victim": "gredy"})
    error = caught.value
    assert error.key == "drive.ftl.victim" and error.value == '"gredy"' and "greedy" in error.allowed
    with pytest.raises(pl.Error) as caught:
        pl.Drive("jasmine", ftl={"victm": "greedy"})
    assert caught.value.key == "drive.ftl.victm" and "victim" in caught.value.allowed
    with pytest.raises(pl.Error) as caught:
        pl.Job(rw="randwrote")
    assert caught.value.key == "rw" and caught.value.value == "randwrote" and "randwrite" in caught.value.allowed
    with pytest.raises(pl.Error) as caught:
        pl.Job(iodpth=3)
    assert caught.value.key == "iodpth" and "iodepth" in caught.value.allowed
    with pytest.raises(pl.Error, match="not a preset"):
        pl.Drive("jasmin")
    with pytest.raises(pl.Error, match="nothing to do") as caught:
        pl.Drive("jasmine").run()
    assert (caught.value.key, caught.value.value) == (None, None)
    assert pl.Error("a sentence").allowed is None
    with pytest.raises(pl.Error) as caught:
        pl.Drive("jasmine").run(pl.Job(rw="read", number_ios=1), precondition="full")
    assert caught.value.allowed == "none, fill, trace, steady"
    with pytest.raises(pl.Error) as caught:
        pl.Trace("t.csv", adress="fold")
    assert caught.value.key == "adress" and "address" in caught.value.allowed


def test_a_job_has_keys():
    with pytest.raises(pl.Error, match="at least one key"):
        pl.Job()


def test_a_drive_with_a_past_forks(small, job):
    aged = small.age(overwrite=1)
    assert "100 %" in aged.past and len(aged.ageing[0]["passes"]) == 1
    first, second = aged.fork(), aged.fork()
    once = first.run(job).json(cost=False)
    assert once == second.run(job).json(cost=False)
    # It goes on from there.
    assert first.run(job).json(cost=False) != once
    assert aged.fork().run(job).json(cost=False) == once
    with pytest.raises(pl.Error, match="the drive has its past"):
        aged.run(job, precondition="fill")


def test_an_image_is_the_commands(small, job, tmp_path):
    aged = small.age(overwrite=1)
    path = tmp_path / "aged.pellucid"
    assert aged.save(path) == path.stat().st_size
    ours = pl.Drive(path).run(job)
    theirs = of_command(f"pellucid run {path} --job rw=randwrite,bs=4k,iodepth=4,number_ios=1000 --json")
    assert f'"total": {ours.report.write_amplification.total}' in theirs
    with pytest.raises(pl.Error, match="not to save|no past to save"):
        small.save(path)


def test_a_comparison_has_text_and_a_table(small, job):
    other = pl.Drive("netbook-ssd", overrides={"media.blocks": 128}, ftl={"victim": "fifo"})
    compared = pl.compare([small, other], job, precondition="fill")
    assert list(compared) == ["netbook-ssd", "netbook-ssd ftl.victim=fifo"]
    assert "write amplification" in str(compared)
    page = compared._repr_html_()
    assert page.count("<th>") > 6 and "netbook-ssd ftl.victim=fifo" in page
    assert "<table>" in small._repr_html_() and "write amplification" in compared["netbook-ssd"]._repr_html_()


def test_a_comparison_over_seeds_tells_differences_from_chance(small):
    fifo = pl.Drive("netbook-ssd", overrides={"media.blocks": 128}, ftl={"victim": "fifo"})
    same = pl.Drive("netbook-ssd", overrides={"media.blocks": 128}, ftl={"victim": "greedy"})
    job = pl.Job(rw="randwrite", bs="4k", number_ios=6000)
    drives = {"greedy": small, "again": same, "fifo": fifo}
    compared = pl.compare(drives, job, seeds=3, precondition="fill", requests=False)
    total = "write_amplification.total"
    values = compared.values("fifo", total)
    assert len(set(values)) == 3 and list(compared) == [1, 2, 3]
    mean, half = compared.interval("fifo", total)
    assert mean == pytest.approx(sum(values) / 3) and half > 0
    assert compared.difference("fifo", total).is_larger_than_chance
    assert compared.difference("again", total).mean == 0 and not compared.difference("again", total).is_larger_than_chance
    assert "3 seeds" in str(compared) and "within chance" in str(compared) and "differs" in compared._repr_html_()
    with pytest.raises(pl.Error, match="at least two"):
        pl.compare(drives, job, seeds=1)
    # The command finds the same.
    line = "netbook-ssd,media.blocks=128 netbook-ssd,media.blocks=128,ftl.victim=fifo"
    words = f"pellucid compare {line} --job rw=randwrite,bs=4k,number_ios=6000 --precondition fill --seeds 3"
    measures = json.loads(of_command(words + " --json"))["measures"]
    (theirs,) = [measure["drives"][1] for measure in measures if measure["measure"] == "write amplification"]
    assert theirs["values"] == values and theirs["mean"] == pytest.approx(mean, abs=1e-12)
    assert theirs["half_width"] == pytest.approx(half, rel=1e-9)
    difference = compared.difference("fifo", total)
    assert theirs["difference"]["mean"] == pytest.approx(difference.mean, abs=1e-12)
    assert theirs["difference"]["half_width"] == pytest.approx(difference.half, rel=1e-9)
    assert theirs["difference"]["is_larger_than_chance"] == difference.is_larger_than_chance


def test_runs_over_seeds_have_intervals(small, tmp_path):
    job = pl.Job(rw="randwrite", bs="4k", iodepth=4, number_ios=4000)
    runs = pl.run(small, job, seeds=(4, 9, 2), precondition="fill", requests=False)
    path = "directions.write.latency.mean_ns"
    assert list(runs) == [4, 9, 2] and len(set(runs.values(path))) == 3
    assert runs.values(path)[1] == small.run(job, seed=9, precondition="fill").report.at(path)
    mean, half = runs.interval(path)
    assert mean == pytest.approx(sum(runs.values(path)) / 3) and half > 0
    assert runs.interval("directions.read.latency.mean_ns") is None
    assert "3 seeds" in str(runs) and "±" in str(runs) and "write mean, ns" in runs._repr_html_()
    # A drive with a past begins anew with every seed.
    aged = small.age(overwrite=0)
    again = pl.run(aged, job, seeds=2)
    assert again.values(path) == pl.run(aged, job, seeds=2).values(path)
    with pytest.raises(pl.Error, match="one of seed and seeds"):
        pl.run(small, job, seeds=2, seed=3)
    trace = tmp_path / "t.csv"
    trace.write_text("0,host,0,Write,0,4096,10\n")
    for refused in (lambda: pl.run(small, pl.Trace(trace), seeds=2), lambda: pl.compare([small, "netbook-ssd"], pl.Trace(trace), seeds=2)):
        with pytest.raises(pl.Error, match="a trace draws nothing at random"):
            refused()


def test_figures_have_the_sizes_of_a_paper(small, job, tmp_path):
    result = small.run(job, precondition="fill")
    assert result.figures, "the page has figures"
    for name in result.figures:
        saved = tmp_path / f"{name}.pdf"
        result.plot.figure(name, columns=2).savefig(saved)
        assert saved.stat().st_size > 1000
    with pytest.raises(pl.Error, match="free-blocks-over-time"):
        result.plot.figure("free-blocks")
    for draw in (result.plot.latency, result.plot.stages, result.plot.write_amplification):
        for columns, width in ((1, 3.33), (2, 7.0)):
            figure = draw(columns=columns)
            assert figure.get_figwidth() == width
            figure.savefig(tmp_path / "figure.pdf")
            assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(pl.Error, match="nothing was written"):
        small.run(pl.Job(rw="randread", number_ios=10)).plot.write_amplification()


def test_other_threads_go_on_while_a_run_works(small):
    turns, over = 0, threading.Event()

    def count():
        nonlocal turns
        while not over.is_set():
            turns += 1

    thread = threading.Thread(target=count)
    thread.start()
    small.run(pl.Job(rw="randwrite", bs="4k", number_ios=20_000), requests=False)
    over.set()
    thread.join()
    # With the interpreter held, the thread would not have had a turn between the two calls.
    assert turns > 1000


def test_an_interrupted_run_leaves_nothing_to_the_next():
    # Its requests were outstanding when it was interrupted: their completions are no other run's.
    aged = pl.Drive("cosmos-plus", media={"channels": 2, "ways": 2, "blocks": 32}).age(overwrite=0)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        aged.run(pl.Job(rw="randwrite", bs="4k", iodepth=64, number_ios=10**9), requests=False)
    for depth in (1, 64):
        result = aged.run(pl.Job(rw="randread", bs="4k", iodepth=depth, number_ios=2000))
        assert result.report.requests == len(result.requests) == 2000 and set(result.requests.to_pandas().op) == {"read"}


@pytest.mark.parametrize(("work", "method"), [
    ("drive.run(pl.Job(rw='randread', number_ios=10**10), requests=False)", "run"),
    ("drive.age()", "age"),
])
def test_ctrl_c_ends_a_run_and_ageing(work, method):
    script = textwrap.dedent(f"""
        import os, signal, sys, threading
        import pellucid as pl
        drive = pl.Drive("datacenter-tlc")
        main = threading.get_ident()

        def interrupt():
            # Once the main thread waits for the drive, other threads see it in the method that called it.
            while sys._current_frames()[main].f_code.co_name != "{method}":
                pass
            os.kill(os.getpid(), signal.SIGINT)

        try:
            threading.Thread(target=interrupt).start()
            {work}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr


def test_warnings_are_pythons():
    with pytest.warns(RuntimeWarning, match="has no effect"):
        pl.Drive("netbook-ssd").run(pl.Job(rw="read", rwmixread=30, number_ios=10))


def test_what_a_report_warns_of_is_a_warning_too(small):
    with pytest.warns(RuntimeWarning) as caught:
        result = pl.Drive("netbook-ssd", media={"blocks": 128}).run(pl.Job(rw="randread", number_ios=100), precondition="none")
    assert result.report.warnings and set(result.report.warnings) <= {str(one.message) for one in caught}


def test_claims_are_reproduced_as_the_command_does():
    found = pl.reproduce("L2")
    assert list(found) == ["L2"] and found.all_misses_known
    frame = found.frame()
    assert len(frame) == len(found["L2"].checks) > 0 and set(frame.claim) == {"L2"}
    theirs = json.loads(of_command("pellucid reproduce L2 --json"))
    assert frame.measured.tolist() == [check["measured"] for check in theirs["claims"][0]["checks"]]
    assert "L2" in str(found) and "<table>" in found._repr_html_()
    with pytest.raises(pl.Error, match="Z99"):
        pl.reproduce("Z99")


def test_a_call_costs_little_beside_the_work(small):
    # Counted, not timed: calls of Python functions for a run, whatever it does.
    def calls(requests):
        count = 0

        def note(_frame, event, _argument):
            nonlocal count
            count += event == "call"

        job = pl.Job(rw="randread", bs="4k", number_ios=requests)
        sys.setprofile(note)
        try:
            result = small.run(job)
        finally:
            sys.setprofile(None)
        return count, result

    few, _ = calls(10)
    many, result = calls(20_000)
    assert few == many < 100
    # The table is handed on as it is: as many batches for many requests as for few.
    assert len(pyarrow.table(result.requests).to_batches()) == 1
    assert len(result.requests.to_pandas()) == 20_000


def calls_of(work):
    """Calls of Python functions that `work` makes."""
    counted = 0

    def count(frame, event, argument):
        nonlocal counted
        counted += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


def test_a_run_costs_few_calls_however_long_it_is():
    aged = pl.Drive("netbook-ssd", overrides={"media.blocks": 128}).age(overwrite=0)
    short, long = (pl.Job(rw="randread", bs="4k", iodepth=4, number_ios=count) for count in (1, 20_000))
    calls = calls_of(lambda: aged.run(short))
    # Some hundred nanoseconds each; the rest of a call is in Rust.
    assert calls <= 30
    assert calls_of(lambda: aged.run(long)) == calls


def test_a_table_becomes_a_frame_column_by_column(small):
    pytest.importorskip("pandas")
    results = [small.run(pl.Job(rw="randread", bs="4k", number_ios=count)) for count in (100, 100, 20_000)]
    results[0].requests.to_pandas()
    assert len({calls_of(result.requests.to_pandas) for result in results[1:]}) == 1, "no call for each row"
    frame = results[2].requests.to_pandas()
    assert len(frame) == 20_000 and frame.latency_ns.sum() == pyarrow.compute.sum(pyarrow.table(results[2].requests)["latency_ns"]).as_py()


def test_a_run_that_does_not_become_steady_warns(small):
    job = pl.Job(rw="randread", bs="4k", time_based=True, runtime="100ms")
    never = pl.Drive("netbook-ssd", overrides={"media.blocks": 128, "run.steady_state": "snia", "run.steady_round": "50ms"})
    with pytest.warns(RuntimeWarning, match="snia: NOT reached in 2 rounds"):
        result = never.run(job, precondition="fill")
    assert not result.report.steady_state.reached


def test_a_key_has_one_value(job):
    """As on the command line, two values are refused wherever they come from, and none is dropped in silence."""
    small = {"media.blocks": 128}
    for given in (
        lambda: pl.Drive("netbook-ssd", overrides={"ftl.victim": "fifo"}, ftl={"victim": "greedy"}),
        lambda: pl.Drive("netbook-ssd", overrides={"ftl": {"victim": "fifo"}}, ftl={"victim": "greedy"}),
        lambda: pl.Drive("netbook-ssd", overrides={"drive.ftl.victim": "fifo", "ftl.victim": "greedy"}),
        lambda: pl.Drive("netbook-ssd", overrides={**small, "run.seed": 5}).run(job, seed=3),
        lambda: pl.Drive("netbook-ssd", overrides={**small, "precondition.fill": 1.0}).run(job, precondition="none"),
        lambda: pl.Drive("netbook-ssd", overrides={**small, "run.verify": True}).run(job, verify=False),
        lambda: pl.Drive("netbook-ssd", overrides={**small, "precondition.fill": 0.5}).age(fill=1.0),
    ):
        with pytest.raises(pl.Error, match="given twice"):
            given()
    for wrong in ({"verify": "no"}, {"requests": 0}):
        with pytest.raises(pl.Error, match="allowed: True or False"):
            pl.Drive("netbook-ssd", overrides=small).run(job, **wrong)


def test_ageing_goes_by_the_description():
    """What `age()` is not told is as the drive says; one that says nothing is filled and overwritten until steady."""
    said = {"media.blocks": 128, "precondition.fill": 0.5, "precondition.overwrite": 0.25}
    aged = pl.Drive("netbook-ssd", overrides=said).age()
    assert "50 %" in aged.past and [len(one["passes"]) for one in aged.ageing] == [1], (aged.past, aged.ageing)
    assert pl.Drive("netbook-ssd", overrides={"media.blocks": 128}).age().ageing[0]["reason"]
