"""Types whose methods are spread over files, or are very many, are told where they are not known."""
import pathlib
import tempfile
import unittest

import check_types


class Types(unittest.TestCase):
    def crate(self, folder: str, files: dict[str, str]) -> pathlib.Path:
        crates = pathlib.Path(folder) / "crates"
        for name, text in files.items():
            path = crates / "one" / "src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return crates

    def spread(self, count: int) -> dict[str, str]:
        files = {f"big/part{at}.rs": "impl<D: Drive> Big<D> {\n    pub(super) fn part(&self) {}\n}\n" for at in range(count)}
        return files | {"big/mod.rs": "pub struct Big<D> {\n    drive: D,\n}\n"}

    def test_a_type_in_four_files_is_told_unless_it_is_known(self):
        with tempfile.TemporaryDirectory() as folder:
            crates = self.crate(folder, self.spread(4))
            self.assertIn("Big of big/mod.rs has methods in 4 files: big/part0.rs", check_types.complaints(crates, [], [])[0])
            self.assertEqual(check_types.complaints(crates, [("one", "big/mod.rs", "Big", 4, "why")], []), [])
            self.assertIn("allowed: 5", check_types.complaints(crates, [("one", "big/mod.rs", "Big", 5, "why")], [])[0])

    def test_three_files_are_allowed_and_end_an_exception(self):
        with tempfile.TemporaryDirectory() as folder:
            crates = self.crate(folder, self.spread(3))
            self.assertEqual(check_types.complaints(crates, [], []), [])
            self.assertIn("take it off KNOWN", check_types.complaints(crates, [("one", "big/mod.rs", "Big", 4, "why")], [])[0])

    def test_a_type_of_many_methods_is_told_unless_it_is_known_with_their_number(self):
        def many(count: int) -> dict[str, str]:
            methods = "".join(f"    #[inline]\n    pub(crate) const fn method{at}(&self) {{}}\n" for at in range(count))
            more = "impl Show for Many {\n    fn show(&self) {}\n}\n#[cfg(test)]\nmod tests {\nimpl Many {\n    fn of_tests() {}\n}\n}\n"
            return {"many.rs": f"pub(crate) struct Many;\nimpl Many {{\n{methods}}}\n{more}"}

        with tempfile.TemporaryDirectory() as folder:
            crates = self.crate(folder, many(check_types.METHODS_MAX + 1))
            self.assertEqual(len(check_types.complaints(crates, [], [])), 1)
            self.assertIn("Many of many.rs has 51 methods; allowed: 50", check_types.complaints(crates, [], [])[0])
            self.assertEqual(check_types.complaints(crates, [], [("one", "many.rs", "Many", 51, "why")]), [])
            self.assertIn("allowed: 60", check_types.complaints(crates, [], [("one", "many.rs", "Many", 60, "why")])[0])
            self.crate(folder, many(check_types.METHODS_MAX))
            self.assertEqual(check_types.complaints(crates, [], []), [])
            self.assertIn("take it off LARGE", check_types.complaints(crates, [], [("one", "many.rs", "Many", 51, "why")])[0])

    def test_types_of_one_name_traits_and_tests_are_told_apart(self):
        files = {f"{room}/{name}.rs": "impl Start {\n    fn step(&mut self) {}\n}\n" for room in ("left", "right") for name in ("go", "stop")}
        files |= {f"{room}/mod.rs": "struct Start;\nimpl Start {\n    fn new() -> Start {\n        Start\n    }\n}\n" for room in ("left", "right")}
        files |= {f"left/shown{at}.rs": "impl Show for Start {\n    fn show(&self) {}\n}\n" for at in range(3)}
        files |= {"left/tests/more.rs": "impl Start {\n    fn of_tests() {}\n}\n"}
        with tempfile.TemporaryDirectory() as folder:
            crates = self.crate(folder, files)
            self.assertEqual(check_types.complaints(crates, [], []), [])
            found = check_types.files_of_types(crates / "one" / "src")
            self.assertEqual(found["left/mod.rs", "Start"], {"left/go.rs": 1, "left/mod.rs": 1, "left/stop.rs": 1})


if __name__ == "__main__":
    unittest.main()
