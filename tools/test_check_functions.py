"""Long functions are told where they are not known."""
import pathlib
import tempfile
import unittest

import check_functions


def function(name: str, lines: int, indent: str = "") -> str:
    body = "".join(f"{indent}    let _ = {{ 1 }};\n" for _ in range(lines - 2))
    return f"{indent}pub fn {name}(&self) {{\n{body}{indent}}}\n"


class Functions(unittest.TestCase):
    def crates(self, folder: str, text: str, name: str = "lib.rs") -> pathlib.Path:
        path = pathlib.Path(folder) / "crates" / "one" / "src" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        return pathlib.Path(folder) / "crates"

    def told(self, text: str, known: list[tuple[str, str, str]] = [], name: str = "lib.rs") -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            return check_functions.complaints(self.crates(folder, text, name), known)

    def test_the_71st_line_is_told(self):
        self.assertEqual(self.told(function("short", 70)), [])
        self.assertIn("one/src/lib.rs: long has 71 lines", self.told(function("long", 71))[0])
        self.assertIn("long has 71 lines", self.told("impl One {\n" + function("long", 71, "    ") + "}\n")[0])

    def test_a_reason_stands_for_one_that_is_there(self):
        known = [("one/src/lib.rs", "long", "a table")]
        self.assertEqual(self.told(function("long", 71), known), [])
        self.assertIn("take it off KNOWN", self.told(function("long", 70), known)[0])

    def test_signatures_and_tests_do_not_count(self):
        self.assertEqual(self.told("trait A {\n    fn a(&self);\n}\n" + "\n" * 100 + "}\n"), [])
        self.assertEqual(self.told(function("long", 99), name="tests.rs"), [])
        self.assertEqual(self.told("#[cfg(test)]\nmod tests {\n" + function("long", 99, "    ") + "}\n"), [])


if __name__ == "__main__":
    unittest.main()
