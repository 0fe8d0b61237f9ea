"""Sweeps: plans, engines, results."""
import csv
import errno
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pellucid as pl
from pellucid import sweep
from pellucid.sweep import engines, report
from pellucid.sweep.results import main
from pellucid.statistics import interval, student_t

PLAN = """
drive = "netbook-ssd"
job = { rw = "randwrite", bs = "4k", number_ios = 3000 }
precondition = "fill"
seeds = 3
keep = ["write_amplification.total", "simulated_seconds"]
[overrides]
"media.blocks" = 128
[axes]
"ftl.victim" = ["greedy", "fifo"]
"job.iodepth" = [1, 4]
"""


@pytest.fixture
def plan(tmp_path):
    """The plan as a file."""
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def files(directory):
    return {path.name: path.read_bytes() for path in (directory / "points").iterdir()}


def command(*words, **options):
    return subprocess.run([sys.executable, "-m", "pellucid", "sweep", *map(str, words)], capture_output=True, text=True, **options)


def test_a_plan_has_all_combinations(plan):
    read = sweep.Plan.read(plan)
    assert len(read.points) == 2 * 2 * 3 and read.columns == ["ftl.victim", "job.iodepth", "seed"]
    assert read.points[0].overrides == {"media.blocks": 128, "ftl.victim": "greedy", "run.seed": 1}
    assert read.points[-1].jobs == [{"rw": "randwrite", "bs": "4k", "number_ios": 3000, "iodepth": 4}]
    assert len({point.id for point in read.points}) == 12


def test_ranges_are_linear_or_logarithmic():
    def values(axis):
        return sweep.Plan(f'drive = "jasmine"\n[axes]\n"x" = {axis}\n').axes["x"]

    assert values('{ from = 1, to = 64, steps = 7, scale = "log" }') == [1, 2, 4, 8, 16, 32, 64]
    assert values("{ from = 0.1, to = 0.3, steps = 3 }") == [0.1, 0.2, 0.3]
    assert values("{ from = 1, to = 3, steps = 3 }") == [1, 2, 3]
    assert values("{ from = 1.0, to = 3, steps = 5 }") == [1, 1.5, 2, 2.5, 3]


@pytest.mark.parametrize(("text", "key", "allowed"), [
    ("sed = 1", "sed", "seeds"),
    ("seeds = 0", "seeds", "from 1 on"),
    ("keep = []", "keep", "paths in the report"),
    ("[axes]\nx = []", "axes.x", "values"),
    ("[axes]\nx = [1, 1]", "axes.x", "once"),
    ('[axes]\nx = { from = 0, to = 1, steps = 3, scale = "log" }', "axes.x", "above 0"),
    ("[axes]\nx = { from = 0, to = 1, steps = 1 }", "axes.x.steps", "from 2 on"),
    ("[axes]\nx = { from = 1, to = 3, steps = 5 }", "axes.x.steps", "at most 3, as values"),
    ('[axes]\nx = { from = 1, to = 8, steps = 8, scale = "log" }', "axes.x.steps", "at most 5, as values"),
    ("[axes]\nx = { from = 2, to = 2, steps = 2 }", "axes.x", "that differ"),
    ('trace = "none.csv"', "trace", "a file"),
    (f"trace = '{__file__}'\nseeds = 2", "seeds", "seed_keys"),
    ("[axes]\njob.bs = ['4k']", "axes", "with job"),
    ("keep = ['requests', 'requests']", "keep", "each once"),
    ("precondition = 'full'", "precondition", "steady"),
    ("[axes]\ndrive = ['jasmine', 'netbook-ssd']", "drive", "not both"),
    ("job = { rw = 'read', bs = '4k' }\n[axes]\n'job.bs' = ['4k', '8k']", "job", "not both"),
    ("[axes]\n'run.seed' = [11, 12]", "axes", "each key once; seeds and steady_state give run.seed"),
    ("[axes]\n'ftl.victim' = ['fifo']\n'drive.ftl.victim' = ['greedy']", "axes", "each key once"),
])
def test_a_wrong_plan_names_key_and_what_is_allowed(text, key, allowed):
    with pytest.raises(pl.Error) as caught:
        sweep.Plan(f'drive = "jasmine"\n{text}\n')
    assert caught.value.key == key and allowed in caught.value.allowed


def test_a_sweep_leaves_files_tables_and_a_report(plan, tmp_path):
    done = command(plan, "--on", "local:2")
    assert done.returncode == 0, done.stderr
    assert "write_amplification.total: mean and 95% interval" in done.stdout and "±" in done.stdout
    directory = plan.with_suffix(".sweep")
    assert len(files(directory)) == 12
    point = json.loads(next(iter(files(directory).values())))
    assert set(point) >= {"point", "seed", "version", "inputs", "description", "report", "kept"}
    assert "[drive.media]" in point["description"]
    with open(directory / "results.csv") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["ftl.victim", "job.iodepth", "seed", "write_amplification.total", "simulated_seconds"]
    assert len(rows) == 12 and len({row["write_amplification.total"] for row in rows}) > 3
    frame = sweep.Sweep(sweep.Plan.read(plan), directory).frame()
    import pandas

    assert pandas.read_parquet(directory / "results.parquet").equals(frame)
    assert (directory / "curves.svg").read_text().count("<svg") == 1
    page = (directory / "report.html").read_text()
    # Of two axes, curves; of one objective, no fronts. The page needs nothing else.
    assert page.count("<svg") == 1 and "ftl.victim" in page and "12 points, all done" in page and "src=" not in page
    before = {name: (directory / name).read_bytes() for name in ("curves.svg", "report.html")}
    assert command(plan, "--report").returncode == 0
    elsewhere = tmp_path / "curves"
    assert command(plan, "--report", elsewhere).returncode == 0
    assert (elsewhere / "summary.csv").read_bytes() == (plan.with_suffix(".sweep") / "summary.csv").read_bytes()
    answer = json.loads(command(plan, "--report", "--json").stdout)
    assert answer["done"] == answer["points"] and answer["failed"] == {} and {"mean", "low", "high"} <= set(answer["summary"][0])
    assert {name: (directory / name).read_bytes() for name in before} == before
    # The mean and its bounds are those of the rows.
    with open(directory / "summary.csv") as file:
        first = next(csv.DictReader(file))
    values = frame[(frame["ftl.victim"] == "greedy") & (frame["job.iodepth"] == 1)]["write_amplification.total"]
    assert float(first["mean"]) == pytest.approx(values.mean())
    assert float(first["high"]) - float(first["mean"]) == pytest.approx(4.302652729 * values.std() / 3 ** 0.5)


def test_a_point_is_the_same_bytes_wherever_it_runs_and_is_not_run_twice(plan, tmp_path):
    read = sweep.Plan.read(plan)
    point = read.points[5]
    assert sweep.run_point(point) == sweep.run_point(point)
    once = sweep.run(read, tmp_path / "a", on="local:2")
    assert once.file(point).read_bytes() == sweep.run_point(point)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "a/points").iterdir()}
    once.file(read.points[3]).unlink()
    sweep.run(read, tmp_path / "a", on="local:2")
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "a/points").iterdir()}
    changed = {path for path in before if before[path] != after[path]}
    assert changed == {once.file(read.points[3])}


def test_a_failing_point_does_not_stop_the_others_and_is_reported(plan):
    plan.write_text(PLAN.replace('"fifo"', '"fivo"'))
    done = command(plan, "--on", "local:2")
    assert done.returncode == 1
    assert "6 points, the first is 7, failed" in done.stderr and done.stderr.count("fivo") == 1
    found = files(plan.with_suffix(".sweep"))
    assert sum(name.endswith(".json") for name in found) == 6
    errors = [content.decode() for name, content in found.items() if name.endswith(".error.txt")]
    assert len(errors) == 6 and "fivo" in errors[0] and "allowed" in errors[0]


def test_a_sweep_whose_points_all_fail_has_failed(plan):
    plan.write_text(PLAN.replace('"greedy", "fifo"', '"fivo"'))
    done = command(plan)
    assert done.returncode == 1 and "none of 6 points is done" in done.stderr


def test_a_sweep_of_python_without_a_point_is_an_error(plan, tmp_path):
    plan.write_text(PLAN.replace('"greedy", "fifo"', '"fivo"'))
    with pytest.raises(pl.Error, match="none of 6 points is done; point 1 failed: .*fivo"):
        sweep.run(plan, tmp_path / "none")


@pytest.mark.parametrize("on", ["dask:", "dask:nonsense", "ray:127.0.0.1:9:9"])
def test_a_cluster_that_is_not_reached_is_named(plan, on):
    pytest.importorskip("distributed" if on.startswith("dask") else "ray")
    done = command(plan, "--on", on)
    assert done.returncode == 2 and f"--on {on.rstrip(':')}" in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_what_was_asked_wrongly_is_status_2(plan):
    assert command(plan, "--on", "slurm").returncode == 2
    assert command(plan, "--on", "local:0").returncode == 2
    assert command(plan.with_name("none.toml")).returncode == 2


def test_a_key_of_a_plan_has_one_place(plan):
    """One that is an axis and in the overrides would lose its value there in silence."""
    for also, key in (('"media.blocks" = 128', "media.blocks"), ('"drive.media.blocks" = 128', "media.blocks"), ('"run.seed" = 3', "run.seed")):
        plan.write_text(f'drive = "netbook-ssd"\n[overrides]\n{also}\n[axes]\n"media.blocks" = [128, 256]\n[job]\nrw = "randread"\n')
        with pytest.raises(pl.Error, match=f"overrides = '{key}': not allowed"):
            sweep.Plan.read(plan)


def test_a_changed_input_is_another_point(plan, tmp_path):
    trace = tmp_path / "t.csv"
    trace.write_text("".join(f"{at * 1000},host,0,Write,{at * 8192},4096,10\n" for at in range(100)))
    text = 'drive = "netbook-ssd"\ntrace = "t.csv"\nkeep = ["requests"]\n[axes]\n"run.time_scale" = [1.0, 0.5]\n'
    plan.write_text(text)
    first = sweep.Plan.read(plan)
    assert list(first.points[0].inputs) == [str(trace)]
    assert sweep.run(first, tmp_path / "out", on="local:1").rows()[0]["requests"] == 100
    trace.write_text(trace.read_text() + "100000,host,0,Write,0,4096,10\n")
    assert sweep.Plan.read(plan).points[0].id != first.points[0].id
    with pytest.raises(pl.Error, match="SHA-256"):
        sweep.run_point(first.points[0])


def test_a_killed_driver_costs_at_most_its_points(plan, tmp_path):
    plan.write_text(PLAN.replace("seeds = 3", "seeds = 4"))
    directory = plan.with_suffix(".sweep")
    script = f"from pellucid import sweep; sweep.run({str(plan)!r}, on='local:1', progress=lambda text: print(text, flush=True))"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    for done in (1, 2, 3):
        assert child.stdout.readline() == f"16 points, {done} done\n"
    child.kill()
    child.wait()
    # Its processes have this file, too: it ends when they do.
    child.stdout.read()
    child.stdout.close()
    before = files(directory)
    whole = {name: content for name, content in before.items() if name.endswith(".json") and not name.startswith(".")}
    assert 3 <= len(whole) < 16
    assert all(json.loads(content) for content in whole.values())
    assert command(plan, "--on", "local:2", "-q").returncode == 0
    after = files(directory)
    assert sum(name.endswith(".json") and not name.startswith(".") for name in after) == 16
    assert all(after[name] == content for name, content in whole.items())


def test_a_thousand_points_resume_after_kill_9_of_the_driver(tmp_path):
    plan = tmp_path / "fleet.toml"
    plan.write_text(
        'drive = "netbook-ssd"\njob = { rw = "randwrite", bs = "4k", number_ios = 1 }\nseeds = 1000\nkeep = ["requests"]\n'
        '[overrides]\n"media.blocks" = 128\n'
    )
    script = (
        "from pellucid import sweep\n"
        "if __name__ == '__main__':\n"
        f"    sweep.run({str(plan)!r}, on='local:2', progress=lambda text: print(text, flush=True))\n"
    )
    (tmp_path / "driver.py").write_text(script)
    child = subprocess.Popen([sys.executable, tmp_path / "driver.py"], stdout=subprocess.PIPE, text=True)
    while child.stdout.readline() != "1000 points, 300 done\n":
        assert child.poll() is None
    child.kill()
    child.wait()
    child.stdout.read()
    child.stdout.close()
    unfinished = sweep.Sweep(sweep.Plan.read(plan), plan.with_suffix(".sweep"))
    left = len(unfinished.left())
    assert 0 < left <= 700
    before = {path: path.read_bytes() for path in unfinished.directory.glob("points/*.json") if not path.name.startswith(".")}
    said = []
    whole = sweep.run(plan, on="local:2", progress=said.append)
    assert len(said) == left and said[-1] == "1000 points, 1000 done"
    assert not whole.left() and len(whole.rows()) == 1000
    assert all(path.read_bytes() == content for path, content in before.items()), "what was done is not done again"


def test_a_fleet_is_a_sweep_over_seeds():
    plan = sweep.Plan.read(Path(__file__).resolve().parents[3] / "examples/sweeps/fleet.toml")
    assert len(plan.points) == 1000
    first, second = ({**json.loads(sweep.run_point(point))["kept"]} for point in plan.points[:2])
    assert first != second, "each drive has bad blocks and work of its own"


def test_a_process_that_dies_costs_only_its_own_point(monkeypatch, tmp_path):
    points = sweep.Plan(PLAN).points[:6]
    monkeypatch.setattr(engines, "_try", die_at_2)
    ended = {point.number: (content, error) for point, content, error in engines.on("local:2", points)}
    assert sorted(ended) == [1, 2, 3, 4, 5, 6]
    assert ended[2] == (None, "its process died 3 times")
    assert all(ended[number] == (b"done", None) for number in (1, 3, 4, 5, 6))


def die_at_2(point):
    """Stands in for a point whose process is killed."""
    if point.number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return b"done", None


def test_dask_runs_the_same_plan_and_survives_a_killed_worker(plan, tmp_path):
    distributed = pytest.importorskip("distributed")
    read = sweep.Plan.read(plan)
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        victim = next(iter(cluster.workers.values())).pid
        killed = []

        def kill_once(_said):
            if not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

        done = sweep.run(read, tmp_path / "dask", on=f"dask:{cluster.scheduler_address}", progress=kill_once)
    assert killed and not done.failed and not done.left()
    here = sweep.run_point(read.points[-1])
    assert done.file(read.points[-1]).read_bytes() == here


def test_ray_runs_the_same_plan_and_survives_a_killed_worker(plan, tmp_path):
    ray = pytest.importorskip("ray")
    read = sweep.Plan.read(plan)
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    try:
        @ray.remote
        def number():
            return os.getpid()

        victim = ray.get(number.remote())
        killed = []

        def kill_once(_said):
            if not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

        done = sweep.run(read, tmp_path / "ray", on="ray:auto", progress=kill_once)
    finally:
        ray.shutdown()
    assert killed and not done.failed and not done.left()
    assert done.file(read.points[-1]).read_bytes() == sweep.run_point(read.points[-1])


def summary(axes, numbers):
    """A summary with a row for each combination, whose means are given by `numbers`."""
    return [
        {**dict(zip(axes, chosen)), "number": number, "mean": mean(*chosen), "low": mean(*chosen) - 1, "high": mean(*chosen) + 1, "seeds": 3}
        for chosen in itertools.product(*axes.values()) for number, mean in numbers.items()
    ]


def drawn(text, numbers):
    plan = sweep.Plan(text)
    return report.Drawn(plan, summary(plan.axes, numbers))


NUMBERS = ["write_amplification.total", "directions.write.iops", "simulated_seconds"]


def test_a_front_has_what_no_other_one_beats():
    points = [(1, 9), (2, 5), (3, 5), (2, 7), (4, 1), (4, 1)]
    assert [points[at] for at in report.front(points, ("less", "less"))] == [(1, 9), (2, 5), (4, 1), (4, 1)]
    assert [points[at] for at in report.front(points, ("less", "more"))] == [(1, 9)]
    assert [points[at] for at in report.front(points, ("more", "more"))] == [(1, 9), (2, 7), (3, 5), (4, 1), (4, 1)]


def test_fronts_are_of_pairs_of_objectives():
    text = f'drive = "jasmine"\nkeep = {json.dumps(NUMBERS)}\n[axes]\n"ftl.over_provisioning" = [0.1, 0.2, 0.3, 0.4]\n'
    wa, iops = {0.1: 5.0, 0.2: 4.0, 0.3: 4.5, 0.4: 2.0}, {0.1: 100.0, 0.2: 90.0, 0.3: 80.0, 0.4: 70.0}
    found = drawn(text, {NUMBERS[0]: wa.get, NUMBERS[1]: iops.get, NUMBERS[2]: lambda _: 1.0})
    assert found.pairs() == [(NUMBERS[0], NUMBERS[1])]
    # 0.3 writes more than 0.2 and does less.
    assert found.best(found.pairs()[0]) == [("0.4", 2.0, 70.0), ("0.2", 4.0, 90.0), ("0.1", 5.0, 100.0)]
    assert len(found.fronts().axes) == 1 and found.multiples() is None
    assert [len(axes.containers) for axes in found.curves().axes] == [1, 1, 1]


def test_small_multiples_have_a_panel_for_each_value():
    text = f"""
drive = "jasmine"
job = {{ rw = "randwrite" }}
keep = {json.dumps(NUMBERS[:2])}
[axes]
"ftl.victim" = ["greedy", "fifo"]
"job.iodepth" = {{ from = 1, to = 64, steps = 4, scale = "log" }}
"ftl.over_provisioning" = [0.1, 0.2, 0.3]
"""
    found = drawn(text, {NUMBERS[0]: lambda victim, depth, share: depth * share, NUMBERS[1]: lambda victim, depth, share: 1.0})
    figure = found.multiples()
    assert len(figure.axes) == 2 * 3
    assert [axes.get_title() for axes in figure.axes[:3]] == [f"ftl.over_provisioning = {share}" for share in (0.1, 0.2, 0.3)]
    first = figure.axes[1].containers[0][0]
    assert first.get_xdata().tolist() == [1, 4, 16, 64] and first.get_ydata().tolist() == pytest.approx([0.2, 0.8, 3.2, 12.8])
    assert figure.axes[0].get_xscale() == "log" and len(figure.axes[0].containers) == 2
    svg = report.svg(figure)
    assert svg == report.svg(found.multiples()) and "<svg" in svg


def test_axes_without_numbers_are_drawn_as_they_are():
    text = 'drive = "jasmine"\nkeep = ["write_amplification.total"]\n[axes]\n"ftl.victim" = ["greedy", "fifo"]\n'
    found = drawn(text, {NUMBERS[0]: lambda victim: 5.0 if victim == "greedy" else 6.0})
    assert [label.get_text() for label in found.curves().axes[0].get_xticklabels()] == ["greedy", "fifo"]


def test_the_command_sweeps_with_the_package(plan):
    plan.write_text(PLAN.replace("seeds = 3", "seeds = 1"))
    words = [os.environ["PELLUCID"], "sweep", str(plan), "--python", sys.executable, "--on", "local:2"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.startswith("warning: 4 of 4 points, the first is 1: write amplification is not steady"), done.stderr
    read = sweep.Plan.read(plan)
    assert not sweep.Sweep(read, plan.with_suffix(".sweep")).left() and "write_amplification.total: mean" in done.stdout


def test_intervals_are_students():
    assert student_t(0.95, 4) == pytest.approx(2.7764451052, abs=1e-9)
    assert student_t(0.99, 1) == pytest.approx(63.656741, abs=1e-4)
    mean, half = interval([5.93, 5.95, 5.96, 5.94, 5.945])
    assert mean == pytest.approx(5.945) and half == pytest.approx(2.7764451052 * 0.0111803399 / 5 ** 0.5, rel=1e-6)
    assert interval([3.0]) == (3.0, None)
    assert interval([0.1, 0.1, 0.1]) == (0.1, 0.0)


@pytest.mark.parametrize("keep, sentence", [
    ("write_amplification.totl", "keep: write_amplification.totl: not a number of the report (did you mean write_amplification.total?)"),
    ("writ_amplification.total", "keep: writ_amplification.total: not a number of the report"),
])
def test_a_number_that_no_report_has_is_no_empty_column(tmp_path, keep, sentence, capsys):
    plan = tmp_path / "plan.toml"
    plan.write_text(f'drive = "netbook-ssd"\njob = {{ rw = "randread", bs = "4k", number_ios = 1 }}\nseeds = 2\nkeep = ["{keep}"]\n')
    assert main([str(plan), "--quiet", "--on", "local:1"]) == 1
    told = capsys.readouterr().err
    assert sentence in told and told.count("keep:") == 1 and "2 points, the first is" in told


def test_seeds_that_change_nothing_are_refused(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('drive = "netbook-ssd"\njob = { rw = "randread", bs = "4k", number_ios = 1, randseed = 4 }\nseeds = 2\nkeep = ["requests"]\n')
    with pytest.raises(pl.Error, match="with jobs without randseed"):
        sweep.Plan.read(plan)
    for given in ({"seeds": 2}, {"seed": 5}):
        with pytest.raises(pl.Error, match="jobs without randseed"):
            pl.run("netbook-ssd", pl.Job(rw="randread", bs="4k", number_ios=1, randseed=4), **given)


def test_a_sweep_that_does_not_become_steady_says_so(tmp_path, capsys):
    plan = tmp_path / "plan.toml"
    job = '{ rw = "randread", bs = "4k", time_based = 1, runtime = "100ms" }'
    plan.write_text(f'drive = "netbook-ssd"\njob = {job}\nsteady_state = "snia"\nkeep = ["requests"]\n[overrides]\n"run.steady_round" = "50ms"\n')
    assert main([str(plan), "--quiet", "--on", "local:1"]) == 1
    assert "1 of 1 points did not become steady" in capsys.readouterr().err


def test_an_axis_of_words_and_numbers_has_its_table(tmp_path, capsys):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace('"job.iodepth" = [1, 4]', '"ftl.over_provisioning" = ["20%", 0.25]').replace("seeds = 3", "seeds = 1"))
    assert main([str(path)]) == 0, capsys.readouterr().err
    import pandas

    frame = pandas.read_parquet(path.with_suffix(".sweep") / "results.parquet")
    assert sorted(set(frame["ftl.over_provisioning"])) == ["0.25", "20%"] and frame["seed"].dtype == "int64"
    assert (path.with_suffix(".sweep") / "report.html").exists()


def test_a_damaged_point_is_named_and_done_again_without_its_file(plan, capsys):
    assert main([str(plan), "-q"]) == 0
    (one, other, *_) = sorted((plan.with_suffix(".sweep") / "points").iterdir())
    whole, of_other = one.read_bytes(), other.read_bytes()
    for content in (whole[:-100], b"\xff" + whole[1:], b"[]", of_other):
        one.write_bytes(content)
        capsys.readouterr()
        for words in ([], ["--report"]):
            assert main([str(plan), "-q", *words]) == 2
            error = capsys.readouterr().err
            assert one.name in error and "allowed: without this file" in error and "Traceback" not in error
    one.unlink()
    assert main([str(plan), "-q", "--report"]) == 0 and "1 of 12 points are not done" in capsys.readouterr().err
    assert main([str(plan), "-q"]) == 0 and one.read_bytes() == whole


def test_a_disk_that_is_full_is_named(plan, capsys, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("pellucid.sweep.results.write_whole", full)
    assert main([str(plan), "-q"]) == 1
    assert capsys.readouterr().err.startswith(f"error: {plan.with_suffix('.sweep') / 'plan.toml'}: No space left on device; ")


def test_what_points_are_warned_of_is_said_once(tmp_path, capsys):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace('precondition = "fill"', 'precondition = "none"').replace("randwrite", "randread"))
    assert main([str(path)]) == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: 12 of 12 points, the first is 1: ")]
    assert len(warned) == 1
    assert main([str(path), "-q"]) == 0 and "warning" not in capsys.readouterr().err
