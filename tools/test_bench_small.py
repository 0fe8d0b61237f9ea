"""The small benchmark can fail: each of its checks, on invented reports and costs."""
import contextlib
import io
import itertools
import unittest

import bench_small
import instructions
import measure


def report(description: dict, wall_seconds: float) -> dict:
    made: dict = {}
    for path in bench_small.NEEDED_KEYS:
        *tables, key = path.split(".")
        table = made
        for name in tables:
            table = table.setdefault(name, {})
        table[key] = 1
    return made | {"requests": description["job"][0]["number_ios"], "wall_seconds": wall_seconds}


class Checks(unittest.TestCase):
    def complaints(self, run):
        with contextlib.redirect_stdout(io.StringIO()):
            return bench_small.complaints("random-read", run)

    def test_a_good_run_passes(self):
        self.assertEqual(self.complaints(lambda d: report(d, 0.1)), [])

    def test_a_missing_key_is_named(self):
        def run(description):
            made = report(description, 0.1)
            del made["directions"]["read"]["stage_ns"]
            return made

        (line,) = self.complaints(run)
        self.assertIn("directions.read.stage_ns.media", line)

    def test_a_report_that_differs_is_caught(self):
        counter = itertools.count()
        (line,) = self.complaints(lambda d: report(d, 0.1) | {"simulated_seconds": next(counter)})
        self.assertIn("different reports", line)

    def test_times_of_this_machine_may_differ(self):
        counter = itertools.count(start=1000)
        self.assertEqual(self.complaints(lambda d: report(d, 1.0) | {"wall_seconds": next(counter)}), [])

    def test_lost_requests_are_caught(self):
        lines = self.complaints(lambda d: report(d, 0.1) | {"requests": 7})
        self.assertIn("7 requests completed", lines[0])


class Costs(unittest.TestCase):
    def complaints(self, judge, *costs):
        with contextlib.redirect_stdout(io.StringIO()):
            return judge(*costs)

    def test_a_cost_above_its_bound_is_caught(self):
        kept = {"random-read": 1000}
        self.assertEqual(self.complaints(instructions.compared, {"random-read": 1030}, kept), [])
        (line,) = self.complaints(instructions.compared, {"random-read": 1031}, kept)
        self.assertIn("1,031 instructions; allowed: 1,030", line)

    def test_cost_that_grows_with_capacity_is_caught(self):
        counted = {name: 100 for name in instructions.ON_LARGER}
        counted |= {larger: 140 for larger in instructions.ON_LARGER.values()}
        self.assertEqual(self.complaints(instructions.growing, counted), [])
        counted[instructions.ON_LARGER["random-write"]] = 200
        (line,) = self.complaints(instructions.growing, counted)
        self.assertIn("random-write, 2 x the blocks: a request costs 2.00 x as much; allowed: 1.4 x", line)


class Descriptions(unittest.TestCase):
    def test_toml_is_written_as_it_is_read(self):
        import tomllib

        for name in ("random-read", "random-write"):
            loaded = measure.load(name)
            self.assertEqual(tomllib.loads(measure.to_toml(loaded)), loaded)

    def test_a_variant_changes_what_is_named_and_nothing_else(self):
        loaded = measure.load("random-read")
        changed = measure.variant(loaded, {"job.iodepth": 1, "drive.host.commands": 7})
        self.assertEqual([job["iodepth"] for job in changed["job"]], [1])
        self.assertEqual(changed["drive"]["host"], {"commands": 7})
        self.assertEqual(loaded, measure.load("random-read"))
        self.assertEqual(changed["drive"]["media"], loaded["drive"]["media"])


if __name__ == "__main__":
    unittest.main()
