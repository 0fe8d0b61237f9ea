"""Drives in service, and the plugin of pytest."""
import os
import select
import sqlite3
import subprocess
import sys

import pytest

import pellucid as pl

SECTOR = 512


def test_a_served_drive_reads_back_what_was_written():
    with pl.serve("jasmine") as drive:
        assert drive.uri.startswith("nbd+unix:///jasmine?socket=")
        with drive.open() as disk:
            disk.write(4096, b"p" * 4096)
            disk.flush()
            assert disk.read(4096, 4096) == b"p" * 4096
            assert disk.read(0, SECTOR) == bytes(SECTOR)
            assert disk.size == 64780959744
        assert drive.status()["drives"][0]["host_written_sectors"] == 8
        child = drive.pid
    with pytest.raises(ProcessLookupError):
        subprocess.os.kill(child, 0)


def test_flushed_data_survive_a_power_cut():
    with pl.serve("cosmos-plus") as drive:
        with drive.open() as disk:
            disk.write(0, b"kept" * 128)
            disk.flush()
            drive.power_cut()
            assert disk.read(0, SECTOR) == b"kept" * 128
        assert drive.status()["drives"][0]["power_cuts"] == 1


def test_a_lost_flush_loses_data_in_a_power_cut():
    with pl.serve("cosmos-plus", faults="lost-flush@0s") as drive, drive.open() as disk:
        disk.write(0, b"lost" * 128)
        disk.flush()
        drive.power_cut()
        assert disk.read(0, SECTOR) == bytes(SECTOR)
        assert drive.status()["drives"][0]["host_faults"] == [{"fault": "lost-flush", "hits": 1}]


def test_faults_are_met_and_cleared():
    with pl.serve("jasmine") as drive, drive.open() as disk:
        drive.fault("io-error:on=write,range=0-4096")
        with pytest.raises(OSError, match="Input/output error"):
            disk.write(0, bytes(SECTOR))
        disk.write(8192, bytes(SECTOR))
        drive.clear_faults()
        disk.write(0, bytes(SECTOR))
        assert drive.fault(program_fail=0.25)["program_fail"] == 0.25
        with pytest.raises(pl.Error, match="allowed"):
            drive.fault("io-eror")


def test_a_server_that_does_not_start_says_why():
    with pytest.raises(pl.Error, match="not a preset"), pl.serve("jasmin"):
        pass
    with pytest.raises(pl.Error, match="nothing to listen on"):
        pl.serve("jasmine", nbd=False)


@pytest.mark.parametrize("drive", ["zoned", "jasmine-ssc"])
def test_a_drive_that_nbd_cannot_show_is_refused(drive):
    with pytest.raises(pl.Error, match="not reached over nbd: .*no block namespace"), pl.serve(drive, media={"blocks": 128}):
        pass
    with pl.serve(drive, nbd=False, nvme_tcp="127.0.0.1:0", media={"blocks": 128}) as served:
        assert served.nvme_connect.startswith("nvme connect -t tcp")


def test_a_server_does_not_outlive_its_program(tmp_path):
    file = tmp_path / "pid"
    script = f"import pellucid as pl\ndrive = pl.serve('jasmine').start()\nopen({str(file)!r}, 'w').write(str(drive.pid))\nimport os; os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", script])
    try:
        server = os.pidfd_open(int(file.read_text()))
    except ProcessLookupError:
        return
    ended, _, _ = select.select([server], [], [], 300)
    os.close(server)
    assert ended


def test_a_drive_over_nvme_says_how_to_connect():
    with pl.serve("jasmine", nbd=False, nvme_tcp="127.0.0.1:0") as drive:
        assert drive.nvme_connect.startswith("nvme connect -t tcp")
        with pytest.raises(pl.Error, match="nbd=True"):
            drive.uri


# The recipe of docs/how-to/use-from-python.md: SQLite believes a wrong bit.
@pytest.mark.pellucid("jasmine")
def test_sqlite_believes_corrupt_data(pellucid, tmp_path):
    file = tmp_path / "good.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?)", ((number, "a" * 3000) for number in range(100)))
    content = file.read_bytes()
    content += bytes(-len(content) % SECTOR)
    with pellucid.open() as disk:
        disk.write(0, content)
        disk.flush()
        # A sector in the middle of the text of a row.
        at = content.index(b"a" * 2 * SECTOR) // SECTOR * SECTOR + SECTOR
        pellucid.fault(f"corrupt:range={at}-{at + SECTOR}")
        (tmp_path / "bad.db").write_bytes(disk.read(0, len(content)))
    with sqlite3.connect(tmp_path / "bad.db") as database:
        wrong = database.execute("SELECT id FROM t WHERE body <> ?", ("a" * 3000,)).fetchall()
        assert len(wrong) == 1
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# The second recipe: DuckDB, which has a checksum for each block, notices the same bit.
@pytest.mark.pellucid("jasmine")
def test_duckdb_refuses_corrupt_data(pellucid, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    good, bad = tmp_path / "good.db", tmp_path / "bad.db"
    with duckdb.connect(good) as database:
        # Text that no compression makes much shorter: the middle of the file is data.
        database.execute("CREATE TABLE t AS SELECT range AS id, md5(range::VARCHAR) AS body FROM range(50000)")
        database.execute("CHECKPOINT")
    content = good.read_bytes()
    content += bytes(-len(content) % SECTOR)
    at = len(content) // 2 // SECTOR * SECTOR

    def query(file):
        with duckdb.connect(file, read_only=True) as database:
            return database.execute("SELECT count(*), min(length(body)), max(body) > '' FROM t").fetchone()

    with pellucid.open() as disk:
        disk.write(0, content)
        disk.flush()
        bad.write_bytes(disk.read(0, len(content)))
        assert query(bad) == (50_000, 32, True)
        pellucid.fault(f"corrupt:range={at}-{at + SECTOR}")
        bad.write_bytes(disk.read(0, len(content)))
    with pytest.raises(duckdb.Error, match="checksum"):
        query(bad)


# The third: what a power cut takes of a file that was written again and not flushed.
@pytest.mark.pellucid("cosmos-plus")
def test_sqlite_notices_what_a_power_cut_has_torn(pellucid, tmp_path):
    def content(rows):
        file = tmp_path / f"{rows}.db"
        with sqlite3.connect(file) as database:
            database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
            database.executemany("INSERT INTO t VALUES (?, ?)", ((number, "a" * 3000) for number in range(rows)))
        return file.read_bytes()

    old, new = content(20), content(200)
    assert len(new) % SECTOR == 0
    with pellucid.open() as disk:
        disk.write(0, old)
        disk.flush()
        # The header of the new file is flushed, and says that there are more pages than are kept.
        disk.write(0, new[:4096])
        disk.flush()
        disk.write(4096, new[4096:])
        pellucid.power_cut()
        found = disk.read(0, len(new))
    assert found[:4096] == new[:4096] and found != new
    (tmp_path / "torn.db").write_bytes(found)
    with sqlite3.connect(tmp_path / "torn.db") as database:
        try:
            answer = database.execute("PRAGMA integrity_check").fetchall()
        except sqlite3.DatabaseError as error:
            answer = [(str(error),)]
    assert answer != [("ok",)]


def test_the_fixture_takes_its_drive_from_the_mark(pytester):
    pytester.makepyfile("""
        import pytest

        def test_default(pellucid):
            assert "jasmine" in pellucid.uri

        @pytest.mark.pellucid("netbook-ssd", faults=["io-error@0s:on=write"])
        def test_marked(pellucid):
            assert "netbook-ssd" in pellucid.uri
            with pellucid.open() as disk, pytest.raises(OSError):
                disk.write(0, bytes(512))
    """)
    pytester.runpytest_subprocess("--strict-markers").assert_outcomes(passed=2)
