"""The checker of the long run accepts what a drive may return and calls everything else by its name."""
import unittest

from durability import Checker, Lost
from nbd_client import FUA, TRIM, WRITE


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


class Client:
    """Keeps what is sent, for the test to answer in an order of its own."""

    def __init__(self):
        self.answers = []

    def send(self, command, offset, length, answered, data=b"", flags=0):
        self.answers.append(answered)


class Requests(unittest.TestCase):
    """Block 3: a read is under way when a later version comes, is answered first, and is durable at once."""

    def setUp(self):
        self.checker, self.client = Checker(None, seed=1, first_byte=0, blocks=8, block_bytes=512), Client()

    def overtaken(self, first: int) -> list:
        """Version 1 (`first`: a write or a trim) is there, a read of it is under way, version 2 is written and answered."""
        self.checker.write(self.client, 3, first, FUA)
        self.client.answers.pop()(0, b"")
        self.checker.read(self.client, 3)
        self.checker.write(self.client, 3, WRITE, FUA)
        return self.client.answers

    def test_a_read_may_bring_the_trim_that_it_was_sent_behind(self):
        read, write = self.overtaken(TRIM)
        write(0, b"")
        self.assertEqual(self.checker.blocks[3].durable, 2)
        read(0, bytes(512))

    def test_a_read_behind_the_later_version_may_not(self):
        _, write = self.overtaken(TRIM)
        write(0, b"")
        self.checker.read(self.client, 3)
        with self.assertRaisesRegex(Lost, "zeros, where version 2"):
            self.client.answers.pop()(0, bytes(512))

    def test_a_cut_may_answer_the_write_before_the_read(self):
        read, write = self.overtaken(WRITE)
        self.checker.cut(lambda: None)
        write(0, b"")
        read(0, self.checker.content(3, 1))
        with self.assertRaisesRegex(Lost, "zeros, where version 1"):
            read(0, bytes(512))


if __name__ == "__main__":
    unittest.main()
