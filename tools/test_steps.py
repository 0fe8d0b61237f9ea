"""Steps of `make test`: a failing one hides nothing."""
import contextlib
import io
import threading
import unittest

from steps import Steps, main

# Nothing waits so long but a test that fails.
PATIENCE_SECONDS = 300


class TestSteps(unittest.TestCase):
    def ran(self, steps, failing):
        called = []

        def call(step):
            called.append(step)
            return 1 if step in failing else 0

        shown = io.TextIOWrapper(io.BytesIO())
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(shown):
            failed = Steps(call, lambda step: (call(step), f"output of {step}\n".encode())).run(steps)
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
            return 0, b""

        shown = io.TextIOWrapper(io.BytesIO())
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(shown):
            self.assertEqual(Steps(None, call).run(["a // b"]), [])

    def test_nothing_to_do_is_no_success(self):
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(main([]), 2)


if __name__ == "__main__":
    unittest.main()
