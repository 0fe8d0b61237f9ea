"""Steps of `make test`: a failing one hides nothing."""
import contextlib
import io
import subprocess
import sys
import threading
import unittest

from steps import Ended, Steps, main, wait

# Nothing waits so long but a test that fails.
PATIENCE_SECONDS = 300


class TestSteps(unittest.TestCase):
    def ran(self, steps, failing):
        called = []

        def call(step):
            called.append(step)
            return Ended(1 if step in failing else 0)

        shown = io.TextIOWrapper(io.BytesIO())
        def call_beside(step):
            return Ended(call(step).status, output=f"output of {step}\n".encode())

        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(shown):
            failed = Steps(call, call_beside).run(steps)
        return failed, called, shown.buffer.getvalue().decode()

    def test_all_steps_run_and_failures_are_named(self):
        self.assertEqual(self.ran(["a", "b", "c"], {"a", "b"}), (["a", "b"], ["a", "b", "c"], ""))

    def test_a_condition_that_fails_ends_the_run(self):
        self.assertEqual(self.ran(["!a", "b"], {"a"}), (["a"], ["a"], ""))

    def test_steps_beside_each_other_all_run_in_the_order_of_their_lane(self):
        failed, called, shown = self.ran(["a", "b c // d", "e"], {"b", "d"})
        self.assertEqual(sorted(failed), ["b", "d"])
        self.assertEqual((called[0], called[-1], sorted(called)), ("a", "e", ["a", "b", "c", "d", "e"]))
        self.assertLess(called.index("b"), called.index("c"))
        self.assertEqual(sorted(shown.splitlines()), ["output of b", "output of c", "output of d"])

    def test_lanes_run_at_the_same_time(self):
        both = threading.Barrier(2)

        def call(_):
            both.wait(PATIENCE_SECONDS)
            return Ended(0)

        shown = io.TextIOWrapper(io.BytesIO())
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(shown):
            self.assertEqual(Steps(None, call).run(["a // b"]), [])

    def test_each_step_says_how_it_ended_and_what_it_took(self):
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed):
            Steps(lambda step: Ended(2 if step == "a" else 0, 12.4)).run(["a", "b"])
        first, second = printed.getvalue().splitlines()
        self.assertRegex(first, r"^step a: FAILED after \d+ s, 12 s of processors$")
        self.assertRegex(second, r"^step b: done after \d+ s, 12 s of processors$")

    def test_the_processor_of_a_process_and_of_its_children_is_counted(self):
        work = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(3_000_000))']); sys.exit(3)"
        ended = wait(subprocess.Popen([sys.executable, "-c", work]), b"said")
        self.assertEqual((ended.status, ended.output), (3, b"said"))
        self.assertGreater(ended.processor_seconds, 0)

    def test_nothing_to_do_is_no_success(self):
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(main([]), 2)


if __name__ == "__main__":
    unittest.main()
