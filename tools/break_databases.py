#!/usr/bin/env python3
"""SQLite and PostgreSQL on a drive that breaks: the recipes of docs/how-to/break-a-drive.md, with what each database does then.

    tools/break_databases.py [--pellucid target/debug/pellucid] [--only NAME]

A served file has ext4 on it, mounted through FUSE (nbdfuse) and a loop device, which takes root. Faults are aimed at the bytes of one file of
the database, so what is decided depends on no clock. One line for each test and a plain count; exit status 1 if any has failed.
"""
import contextlib
import os
import random
import re
import sqlite3
import subprocess
import tempfile
from pathlib import Path

from fire_clients import as_file
from served import HANG_SECONDS, Server, Unavailable, main, program, run

SECTOR, BLOCK = 512, 4096
PG_PAGE = 8192
USER = "nobody"  # PostgreSQL refuses to run as root


def of_postgres(name: str) -> str:
    """A program of a PostgreSQL server; Debian keeps them apart, those of each version."""
    apart = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(apart[-1]) if apart else program(name)


class Disk:
    """A served file with ext4."""

    def __init__(self, pellucid, directory):
        if os.geteuid() != 0:
            raise Unavailable("mounting takes root")
        os.chmod(directory, 0o755)
        self.point = Path(directory) / "point"
        self.point.mkdir()
        drive = f"file:{directory}/disk.img,size=256MiB,sector=512"
        self.server = Server(directory, drives=[drive], pellucid=pellucid)
        with self.attached() as device:
            run("mkfs.ext4", "-q", "-b", str(BLOCK), "-E", "lazy_itable_init=0,lazy_journal_init=0", device)

    @contextlib.contextmanager
    def attached(self):
        with as_file(self.server) as file:
            device = run("losetup", "--find", "--show", file).strip()
            try:
                yield device
            finally:
                run("losetup", "--detach", device)

    @contextlib.contextmanager
    def mounted(self):
        """For the length of a block: what the machine has cached of the drive is gone behind it."""
        with self.attached() as device:
            run("mount", device, self.point)
            try:
                yield self.point
            finally:
                run("umount", self.point)

    def extents(self, file: Path) -> list[tuple[int, int, int]]:
        """First and last block of each extent of a file, and the block of the drive where it begins."""
        lines = run("filefrag", f"-b{BLOCK}", "-v", file).splitlines()
        found = (re.match(r"\s*\d+:\s*(\d+)\.\.\s*(\d+):\s*(\d+)\.\.", line) for line in lines)
        return [tuple(map(int, extent.groups())) for extent in found if extent]

    def place(self, file: Path, offset: int) -> int:
        """Where a byte of a file is on the drive."""
        block = offset // BLOCK
        first, physical = next((first, physical) for first, last, physical in self.extents(file) if first <= block <= last)
        return (physical + block - first) * BLOCK + offset % BLOCK

    def ranges(self, file: Path) -> list[str]:
        """All of a file, as ranges of a fault."""
        return [f"{physical * BLOCK}-{(physical + last - first + 1) * BLOCK}" for first, last, physical in self.extents(file)]

    def inject(self, fault: str):
        self.server.ask(do="inject", fault=fault)

    def hits(self) -> int:
        return sum(fault["hits"] for fault in self.server.ask(do="status")["drives"][0]["host_faults"])

    def clear(self):
        assert self.server.ask(do="clear-faults")["cleared"] > 0


@contextlib.contextmanager
def disk(pellucid):
    with tempfile.TemporaryDirectory() as directory:
        disk = Disk(pellucid, directory)
        try:
            yield disk
        except BaseException:
            disk.server.kill()
            raise
        disk.server.stop()


# SQLite

ROWS = 50


def sqlite_body(number: int) -> bytes:
    return random.Random(number).randbytes(64 << 10)


def open_sqlite(point):
    database = sqlite3.connect(point / "db", isolation_level=None)
    database.execute("PRAGMA journal_mode = DELETE")
    database.execute("PRAGMA synchronous = FULL")
    return database


def fill_sqlite(disk) -> list[str]:
    """A table of ROWS large values; the ranges of its file."""
    with disk.mounted() as point:
        with contextlib.closing(open_sqlite(point)) as database:
            database.execute("PRAGMA page_size = 4096")
            database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)")
            for number in range(ROWS):
                database.execute("INSERT INTO t VALUES (?, ?)", (number, sqlite_body(number)))
        os.sync()
        return disk.ranges(point / "db")


def wrong_rows(database) -> list[int]:
    rows = database.execute("SELECT id, body FROM t ORDER BY id").fetchall()
    assert len(rows) == ROWS, len(rows)
    return [number for number, body in rows if body != sqlite_body(number)]


def sqlite_believes_corrupt_data(pellucid):
    """One wrong bit in a value: SQLite, which has no checksums, returns it, and its integrity check finds nothing."""
    with disk(pellucid) as broken:
        fill_sqlite(broken)
        with broken.mounted() as point:
            content = (point / "db").read_bytes()
            # The first sector of a page has the number of the next one.
            at = content.index(sqlite_body(20)[30_000:30_000 + BLOCK // 2]) // BLOCK * BLOCK + 2 * SECTOR
            place = broken.place(point / "db", at)
        broken.inject(f"corrupt:range={place}-{place + SECTOR}")
        with broken.mounted() as point, contextlib.closing(open_sqlite(point)) as database:
            assert wrong_rows(database) == [20], wrong_rows(database)
            check = database.execute("PRAGMA integrity_check").fetchall()
            assert check == [("ok",)], check
        assert broken.hits() > 0
        broken.clear()
        with broken.mounted() as point, contextlib.closing(open_sqlite(point)) as database:
            assert wrong_rows(database) == []
    return "a value is wrong, integrity_check says ok"


def sqlite_reports_reads_that_fail(pellucid):
    """Nothing of the file can be read: SQLite says so, and afterwards everything is there."""
    with disk(pellucid) as broken:
        for place in fill_sqlite(broken):
            broken.inject(f"io-error:on=read,range={place}")
        with broken.mounted() as point:
            try:
                with contextlib.closing(open_sqlite(point)) as database:
                    wrong_rows(database)
                raise AssertionError("it was read")
            except sqlite3.OperationalError as error:
                said = str(error)
        broken.clear()
        with broken.mounted() as point, contextlib.closing(open_sqlite(point)) as database:
            assert wrong_rows(database) == []
    return said


def sqlite_keeps_commits_when_writes_fail(pellucid):
    """The drive takes no writes of the database's pages: the commit fails, and what was committed before is there afterwards."""
    with disk(pellucid) as broken:
        ranges = fill_sqlite(broken)
        with broken.mounted() as point:
            database = open_sqlite(point)
            for place in ranges:
                broken.inject(f"io-error:on=write,range={place}")
            try:
                database.execute("UPDATE t SET body = zeroblob(65536)")
                raise AssertionError("the commit was acknowledged")
            except sqlite3.OperationalError as error:
                said = str(error)
            assert broken.hits() > 0
            broken.clear()
            with contextlib.suppress(sqlite3.Error):
                database.close()
        with broken.mounted() as point, contextlib.closing(open_sqlite(point)) as database:
            check = database.execute("PRAGMA integrity_check").fetchall()
            assert check == [("ok",)], check
            assert wrong_rows(database) == []
    return said


# PostgreSQL

PG_ROWS = 20_000
CREATE = f"CREATE TABLE t AS SELECT g AS id, repeat(md5(g::text), 40) AS body FROM generate_series(1, {PG_ROWS}) g"
WRONG = "SELECT count(*) AS wrong FROM t WHERE body <> repeat(md5(id::text), 40)"


class Postgres:
    """A cluster on a disk, in single-user mode: one process, no port."""

    def __init__(self, disk, checksums: bool):
        self.disk = disk
        with disk.mounted() as point:
            os.chmod(point, 0o777)
            words = [of_postgres("initdb"), "--pgdata", str(point / "data"), "--no-locale", "--encoding=UTF8", "--no-sync"]
            self.words(words + (["--data-checksums"] if checksums else []))
            said = self.ask(point, CREATE, "SELECT pg_relation_filepath('t') AS path", "CHECKPOINT")
            self.path = "data/" + re.search(r'path = "([^"]+)"', said)[1]
            os.sync()

    def words(self, words, sql=""):
        return subprocess.run(words, input=sql, capture_output=True, text=True, errors="replace", user=USER, cwd="/", timeout=HANG_SECONDS)

    def ask(self, point, *statements) -> str:
        """What PostgreSQL says to these, and to the log."""
        options = ["-c", "full_page_writes=on", "-c", "shared_buffers=128MB"]
        words = [of_postgres("postgres"), "--single", *options, "-D", str(point / "data"), "postgres"]
        done = self.words(words, "".join(f"{statement}\n" for statement in statements))
        return f"{done.stdout}{done.stderr}status {done.returncode}"

    def wrong(self, point) -> int:
        said = self.ask(point, WRONG)
        found = re.search(r'wrong = "(\d+)"', said)
        assert found, said
        return int(found[1])


def sector_of_a_body(table: bytes) -> int:
    """A sector with nothing but the text of a row."""
    for at in range(100 * PG_PAGE, len(table), SECTOR):
        if re.fullmatch(rb"[0-9a-f]+", table[at:at + SECTOR]):
            return at
    raise AssertionError("no such sector")


def corrupt_postgres(pellucid, checksums: bool):
    """A cluster with a wrong bit in a row; what it says of the table."""
    with disk(pellucid) as broken:
        postgres = Postgres(broken, checksums)
        with broken.mounted() as point:
            table = point / postgres.path
            place = broken.place(table, sector_of_a_body(table.read_bytes()))
        broken.inject(f"corrupt:range={place}-{place + SECTOR}")
        with broken.mounted() as point:
            said = postgres.ask(point, WRONG)
        assert broken.hits() > 0
        broken.clear()
        # Without checksums it has written the wrong page back: it sets hint bits in what it reads.
        if checksums:
            with broken.mounted() as point:
                assert postgres.wrong(point) == 0
    return said


def postgres_notices_corrupt_data_with_checksums(pellucid):
    """One wrong bit in a page: with data checksums the query fails."""
    said = corrupt_postgres(pellucid, checksums=True)
    error = re.search(r"ERROR:\s+(invalid page in block \d+)", said)
    assert error, said
    return error[1]


def postgres_believes_corrupt_data_without_checksums(pellucid):
    """The same without them: a row is wrong and nobody knows."""
    said = corrupt_postgres(pellucid, checksums=False)
    assert 'wrong = "1"' in said and "ERROR" not in said, said
    return "a row is wrong"


def postgres_recovers_when_writes_fail(pellucid):
    """The drive takes no writes of a table at a checkpoint: PostgreSQL stops, and its log has what was committed."""
    with disk(pellucid) as broken:
        postgres = Postgres(broken, checksums=True)
        with broken.mounted() as point:
            table = point / postgres.path
            for place in broken.ranges(table):
                broken.inject(f"io-error:on=write,range={place}")
            said = postgres.ask(point, "DELETE FROM t WHERE id <= 1000", "CHECKPOINT")
            panic = re.search(r"PANIC:\s+(could not fsync file)", said)
            assert panic, said
            assert broken.hits() > 0
            broken.clear()
        with broken.mounted() as point:
            assert postgres.wrong(point) == 0
            said = postgres.ask(point, "SELECT count(*) AS rows FROM t")
            assert f'rows = "{PG_ROWS - 1000}"' in said, said
    return panic[1]


def on_postgres(test):
    """Skipped without PostgreSQL."""
    def tried(pellucid):
        for name in ("initdb", "postgres"):
            of_postgres(name)
        return test(pellucid)
    tried.__name__ = test.__name__
    return tried


TESTS = [sqlite_believes_corrupt_data, sqlite_reports_reads_that_fail, sqlite_keeps_commits_when_writes_fail,
         *map(on_postgres, [postgres_notices_corrupt_data_with_checksums, postgres_believes_corrupt_data_without_checksums,
                            postgres_recovers_when_writes_fail])]

if __name__ == "__main__":
    main("databases on a drive that breaks", __doc__, TESTS)
