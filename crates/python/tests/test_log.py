"""The log of requests, by the command, in both forms."""
import os
import subprocess

import pyarrow.csv
import pyarrow.parquet

import pellucid as pl

RUN = ["run", "netbook-ssd", "--set", "media.blocks=128", "--job", "rw=randrw,bs=4k,iodepth=4,number_ios=2000", "-q"]


def command(*words):
    return subprocess.run([os.environ["PELLUCID"], *RUN, *map(str, words)], capture_output=True, text=True)


def test_a_log_as_parquet_is_the_csv_log_and_pythons_table(tmp_path):
    table, text = tmp_path / "log.parquet", tmp_path / "log.csv"
    assert command("--log", table).returncode == 0
    assert command("--log", text).returncode == 0
    ours = pyarrow.parquet.read_table(table).to_pandas()
    assert len(ours) == 2000
    assert ours.astype(str).equals(pyarrow.csv.read_csv(text).to_pandas().astype(str))
    job = pl.Job(rw="randrw", bs="4k", iodepth=4, number_ios=2000)
    here = pl.Drive("netbook-ssd", overrides={"media.blocks": 128}).run(job).requests.to_pandas()
    assert ours.astype(str).equals(here.astype(str))


def test_a_log_of_ours_is_replaced_and_another_file_is_not(tmp_path):
    table = tmp_path / "log.parquet"
    assert command("--log", table).returncode == 0
    assert command("--log", table).returncode == 0
    table.write_bytes(b"PAR1 of somebody else")
    done = command("--log", table)
    assert done.returncode == 2 and "--force" in done.stderr
    assert table.read_bytes() == b"PAR1 of somebody else"
    assert command("--log", table, "--force").returncode == 0


def test_a_run_that_fails_leaves_no_log(tmp_path):
    table = tmp_path / "log.parquet"
    # All of it is before the measurement.
    work = [os.environ["PELLUCID"], "run", "netbook-ssd", "--job", "rw=read,ramp_time=10s,number_ios=1", "--log", str(table)]
    done = subprocess.run(work, capture_output=True, text=True)
    assert done.returncode == 2 and "nothing was measured" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_tables_of_the_report_lie_beside_a_log_as_parquet(tmp_path):
    assert command("--log", tmp_path / "log.parquet").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.operations.parquet", "log.parquet", "log.series.parquet"]
    job = pl.Job(rw="randrw", bs="4k", iodepth=4, number_ios=2000)
    result = pl.Drive("netbook-ssd", overrides={"media.blocks": 128}).run(job)
    for name in ("series", "operations"):
        ours = pyarrow.parquet.read_table(tmp_path / f"log.{name}.parquet")
        assert ours.equals(pyarrow.table(getattr(result, name))), name
    (tmp_path / "log.series.parquet").write_bytes(b"PAR1 of somebody else")
    done = command("--log", tmp_path / "log.parquet")
    assert done.returncode == 2 and "log.series.parquet" in done.stderr and "--force" in done.stderr
