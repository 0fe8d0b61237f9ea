"""Tests of side_by_side.py."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import side_by_side

SCRIPT = Path(side_by_side.__file__)


def run(*words):
    done = subprocess.run([sys.executable, SCRIPT, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


class Lanes(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def suite(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def test_all_run_and_one_failure_is_told(self):
        good = self.suite("good.py", "import sys; print('good', *sys.argv[1:])")
        bad = self.suite("bad.py", "import sys; print('bad'); sys.exit(3)")
        status, output, errors = run(bad, "+", good, "1", "//", good, "2")
        self.assertEqual(status, 1)
        for line in ("bad\n", "good 1\n", "good 2\n", "bad.py: status 3"):
            self.assertIn(line, output)
        self.assertEqual(errors, f"failed: {bad}\n")
        self.assertEqual(run(good, "//", good)[0], 0)

    def test_lanes_run_at_the_same_time(self):
        # Each waits for the file that the other makes.
        text = """
import pathlib, sys, time
mine, other = map(pathlib.Path, sys.argv[1:])
mine.touch()
end = time.monotonic() + 600
while not other.exists():
    assert time.monotonic() < end
    time.sleep(0.01)
"""
        meets, a, b = self.suite("meets.py", text), self.directory / "a", self.directory / "b"
        self.assertEqual(run(meets, a, b, "//", meets, b, a)[0], 0)

    def test_an_empty_suite_is_refused(self):
        for words in ((), ("x.py", "+"), ("//", "x.py")):
            self.assertEqual(run(*words)[0], 2, words)


if __name__ == "__main__":
    unittest.main()
