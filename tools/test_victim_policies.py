#!/usr/bin/env python3
"""The plain log of victim_policies.py against closed forms and its mean field, which it does not use."""

import unittest

from victim_policies import Case, Log, choices, fifo, simulated


class Theory(unittest.TestCase):
    def near(self, found, known, share):
        self.assertLess(abs(found / known - 1), share, f"{found}, known {known}")

    def test_known_values_of_the_closed_form(self):
        for op, known in ((0.07, 7.82), (0.10, 5.68), (0.28, 2.48), (0.30, 2.36)):
            self.near(fifo(op), known, 0.002)

    def test_the_mean_field_of_random_choice(self):
        for op in (0.07, 0.28):
            self.near(choices(op, 16, 1), (1 + op) / op, 1e-3)

    def test_greedy_with_many_pages_is_as_good_as_fifo(self):
        few, many = choices(0.28, 16), choices(0.28, 128)
        self.assertLess(few, many)
        self.assertLess(many, fifo(0.28))
        self.near(many, fifo(0.28), 0.03)


class Plain(unittest.TestCase):
    def test_policies_meet_theory(self):
        for policy, known in (
            ("fifo", fifo(0.28)),
            ("random", 1.28 / 0.28),
            ("greedy", choices(0.28, 16)),
            ("d-choices:2", choices(0.28, 16, 2)),
        ):
            found = simulated(Case(policy, 0.28, 16, 256))
            self.assertLess(abs(found / known - 1), 0.03, f"{policy}: {found}, known {known}")

    def test_every_page_has_one_place(self):
        log = Log(32, 8, 200, "cost-benefit", hot=(0.2, 0.8), separated=True)
        log.amplification(settle=2, measure=1)
        self.assertEqual(sum(log.valid), 200)
        self.assertTrue(all(log.owner[place] == page for page, place in enumerate(log.place)))
        self.assertEqual(len(set(log.place)), 200)


if __name__ == "__main__":
    unittest.main()
