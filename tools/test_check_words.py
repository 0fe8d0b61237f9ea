"""Openings and words that slow a reader down are found, in comments and in pages, and nothing else is."""

import unittest

from check_words import EXCEPTIONS, ROOT, complaints


def rust(*lines: str) -> list[str]:
    return complaints("crates/x/src/lib.rs", "\n".join(lines))


def page(*lines: str) -> list[str]:
    return complaints("page.md", "\n".join(lines))


class Words(unittest.TestCase):
    def test_a_comment_that_opens_without_a_noun_is_found(self):
        for opening in ("What it does.", "Those of the first list.", "The same, later.", "Whether it is.", "That of a drive.", "Of a drive."):
            self.assertEqual(len(rust("/// " + opening, "fn f() {}")), 1, opening)
            self.assertEqual(len(rust("//! " + opening)), 1, opening)
            self.assertEqual(len(page("# Title", "", opening)), 1, opening)
            self.assertEqual(len(page("- " + opening)), 1, opening)

    def test_every_paragraph_of_a_comment_opens(self):
        self.assertEqual(rust("/// Reads.", "///", "/// What it reads is checked.")[0].split(":")[:2], ["crates/x/src/lib.rs", "3"])

    def test_a_line_that_continues_a_sentence_opens_nothing(self):
        self.assertEqual(rust("/// Returns the sectors that a host wrote, and", "/// that nobody has read."), [])
        self.assertEqual(page("A drive keeps", "what was flushed."), [])

    def test_words_are_found_over_the_end_of_a_line(self):
        self.assertEqual(len(rust("/// Drops data after the last", "/// resort.")), 1)
        self.assertEqual(len(page("| a | relocation of pages |")), 1)

    def test_the_words_of_the_field_pass(self):
        self.assertEqual(rust("/// Garbage collection (GC) copies the valid pages of a victim."), [])
        self.assertEqual(page("A zone is striped over dies."), [])

    def test_code_is_no_prose(self):
        self.assertEqual(rust("/// Reads `taps`.", "let what = 1; // What else", "/// ```text", "/// What ledger", "/// ```"), [])
        self.assertEqual(page("```", "What ledger", "```", "Set `ledger`."), [])

    def test_a_question_may_begin_as_it_likes(self):
        self.assertEqual(page("What does a drive keep?"), [])

    def test_generated_pages_are_left_out(self):
        self.assertEqual(page("Generated from the code by `pellucid reference`; do not edit.", "", "What ledger."), [])

    def test_exceptions_exist(self):
        for (name, text), reason in EXCEPTIONS.items():
            self.assertTrue(reason)
            self.assertIn(text, (ROOT / name).read_text())


if __name__ == "__main__":
    unittest.main()
