"""Steps of `make test`: a failing one hides nothing."""
import contextlib
import io
import unittest

from steps import main, run


class Steps(unittest.TestCase):
    def ran(self, steps, failing):
        called = []

        def call(step):
            called.append(step)
            return 1 if step in failing else 0

        with contextlib.redirect_stderr(io.StringIO()):
            return run(steps, call), called

    def test_all_steps_run_and_failures_are_named(self):
        self.assertEqual(self.ran(["a", "b", "c"], {"a", "b"}), (["a", "b"], ["a", "b", "c"]))

    def test_a_condition_that_fails_ends_the_run(self):
        self.assertEqual(self.ran(["!a", "b"], {"a"}), (["a"], ["a"]))

    def test_nothing_to_do_is_no_success(self):
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(main([]), 2)


if __name__ == "__main__":
    unittest.main()
