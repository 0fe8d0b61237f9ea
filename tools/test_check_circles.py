"""Circles of imports within a crate are found, and told where they are not known."""
import pathlib
import tempfile
import unittest

import check_circles


class Circles(unittest.TestCase):
    def crate(self, folder: str, files: dict[str, str]) -> pathlib.Path:
        crates = pathlib.Path(folder) / "crates"
        for name, text in files.items():
            path = crates / "one" / "src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return crates

    def test_a_circle_is_told_unless_it_is_known(self):
        files = {"lib.rs": "mod a;\nmod b;\nmod c;\n", "a.rs": "use crate::{b::B, c};\n", "b/mod.rs": "pub use super::a::A;\n", "c.rs": "use super::b;\n"}
        with tempfile.TemporaryDirectory() as folder:
            crates = self.crate(folder, files)
            self.assertEqual(check_circles.circles(check_circles.arrows(crates / "one" / "src")), [{"a", "b", "c"}])
            self.assertIn("a circle of a, b, c", check_circles.complaints(crates, [])[0])
            self.assertEqual(check_circles.complaints(crates, [("one", "a", 3, "why")]), [])
            self.assertIn("has 3 modules, not 2", check_circles.complaints(crates, [("one", "a", 2, "why")])[0])

    def test_tests_and_parents_make_no_circle(self):
        files = {
            "lib.rs": "mod a;\nmod b;\npub use a::A;\n",
            "a.rs": "mod below;\nuse crate::b::B;\nuse below::Below;\n",
            "a/below.rs": "use super::A;\n",
            "b.rs": "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
        }
        with tempfile.TemporaryDirectory() as folder:
            crates = self.crate(folder, files)
            self.assertEqual(check_circles.circles(check_circles.arrows(crates / "one" / "src")), [])
            self.assertIn("no circle of a any more", check_circles.complaints(crates, [("one", "a", 2, "why")])[0])


if __name__ == "__main__":
    unittest.main()
