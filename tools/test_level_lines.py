"""The lines of code of each level are counted as they say, and what is written down is what is counted."""
import unittest

from level_lines import LEVELS, code_lines, out_of_date, with_table


class Lines(unittest.TestCase):
    def test_only_code_is_counted(self):
        source = "//! Doc.\n\nuse a;\n/// Doc.\nfn f() { // why\n    // comment\n}\n\n#[cfg(test)]\nmod tests {\n    use b;\n}\n"
        self.assertEqual(code_lines(source), 3)

    def test_the_table_and_the_claim_have_the_numbers_of_the_sources(self):
        self.assertEqual(out_of_date(), [])

    def test_the_table_names_every_level(self):
        text = with_table("before\n<!-- made by tools/level_lines.py -->\nSTALE\n<!-- end -->\nafter\n")
        self.assertTrue(text.startswith("before\n") and text.endswith("<!-- end -->\nafter\n") and "STALE" not in text)
        for level in LEVELS:
            self.assertIn(f"| {level.name} |", text)


if __name__ == "__main__":
    unittest.main()
