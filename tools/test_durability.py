"""The checker of the long run accepts what a drive may return and calls everything else by its name."""
import unittest

from durability import Checker, Lost


class Versions(unittest.TestCase):
    """Block 3: version 1 is flushed, 2 acknowledged, 3 under way; 4 was a trim."""

    def setUp(self):
        self.checker = Checker(None, seed=1, first_byte=0, blocks=8, block_bytes=512)
        self.block = self.checker.blocks[3]
        self.block.durable, self.block.acknowledged, self.block.issued = 1, 2, 3
        self.block.trims = set()

    def data(self, version: int, block: int = 3) -> bytes:
        return self.checker.content(block, version)

    def refused(self, data: bytes, oldest: int, why: str):
        with self.assertRaisesRegex(Lost, why):
            self.checker.version_of(3, data, oldest)

    def test_newer_is_good_and_older_is_lost(self):
        for version in (1, 2, 3):
            self.assertEqual(self.checker.version_of(3, self.data(version), 1), version)
        self.refused(self.data(1), 2, "version 1, where 2 or later is due")

    def test_torn_foreign_and_future_data_are_corruption(self):
        self.refused(self.data(2)[:256] + self.data(3)[256:], 1, "not whole")
        self.refused(self.data(2, block=4), 1, "foreign")
        self.refused(self.data(4), 1, "foreign")

    def test_zeros_need_a_trim(self):
        self.refused(bytes(512), 1, "zeros")
        self.block.issued, self.block.trims = 4, {4}
        self.assertEqual(self.checker.version_of(3, bytes(512), 1), 4)
        self.refused(self.data(4), 1, "foreign")

    def test_what_a_cut_undid_must_not_come_back(self):
        self.checker.survived(3)(0, self.data(1))
        self.assertEqual((self.block.acknowledged, self.block.durable), (1, 1))
        self.assertEqual(self.checker.version_of(3, self.data(1), 1), 1)
        self.refused(self.data(3), 1, "is back")
        self.block.issued = 4
        self.assertEqual(self.checker.version_of(3, self.data(4), 1), 4)

    def test_a_cut_may_undo_nothing_that_is_durable(self):
        self.block.durable = 2
        with self.assertRaisesRegex(Lost, "version 1, where 2"):
            self.checker.survived(3)(0, self.data(1))
        with self.assertRaisesRegex(Lost, "cannot be read"):
            self.checker.survived(3)(5, b"")

    def test_errors_need_a_cut(self):
        with self.assertRaisesRegex(Lost, "without a power cut"):
            self.checker.refused(5)
        self.checker.cutting = True
        self.assertTrue(self.checker.refused(5))


if __name__ == "__main__":
    unittest.main()
