"""A page that says how to extend Pellucid names exactly the files that its patch changes."""
import pathlib
import re
import tempfile
import unittest

import recipes

# Lists of keys, and rows of a paper's page, which a command writes or a test compares: no page has to name them.
DERIVED = ("docs/",)
# A command set with files in five crates is no small patch; the page names one in the tree that shows it. A policy in Python changes no file.
WITHOUT_PATCH = {"command-set.md", "policy-in-python.md"}


def changed(patch: str) -> set[str]:
    """The files that a patch changes or makes."""
    return set(re.findall(r"^\+\+\+ b/(\S+)$", patch, re.MULTILINE))


def named(page: str) -> set[str]:
    """The source files that a page names."""
    return set(re.findall(r"`(crates/[\w/.-]+\.rs)`", page.split("\n## ")[0]))


class Pages(unittest.TestCase):
    def test_every_page_has_a_patch_and_names_its_files(self):
        pages = sorted(page for page in recipes.RECIPES.glob("*.md") if page.name not in WITHOUT_PATCH)
        self.assertGreaterEqual(len(pages), 7)
        for page in pages:
            with self.subTest(page.name):
                text, patch = page.read_text(), page.with_suffix(".patch")
                self.assertIn(f"({patch.name})", text, "no link to the patch")
                files = {name for name in changed(patch.read_text()) if not name.startswith(DERIVED)}
                self.assertEqual(files, named(text))

    def test_every_patch_has_a_page(self):
        for patch in recipes.patches():
            self.assertTrue(patch.with_suffix(".md").exists(), patch.name)


class Applying(unittest.TestCase):
    def test_a_patch_for_other_lines_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder) / "tree"
            tree.mkdir()
            (tree / "a").write_text("one\n")
            patch = tree / "p.patch"
            patch.write_text("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-two\n+three\n")
            self.assertIn("a", recipes.applied(patch, tree))
            patch.write_text("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+three\n")
            self.assertEqual(recipes.applied(patch, tree), "")
            self.assertEqual((tree / "a").read_text(), "three\n")


if __name__ == "__main__":
    unittest.main()
