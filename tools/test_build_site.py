"""The site: pages are laid out with their links, defects are found, and tutorials are held to what comes out."""
import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import build_site
import check_site
import python_reference
import run_tutorials

REPORT = '<style>.plot { fill: red; }\nbody { margin: 0; }</style><figure class="card"><svg class="plot" aria-label="A. b"><svg></svg></svg>' \
    "<figcaption>Why.</figcaption></figure>"


# A page that is in no folder; its links are as from there.
PAGE = "docs/" + "how-to/x.md"


class Layout(unittest.TestCase):
    def test_links_lead_to_the_places_in_the_site(self):
        layout = build_site.Layout()
        layout.add(PAGE, "# X\n[a](../../CONTRIBUTING.md#tests) [b](../README.md) [c](../../examples/serve/ci.yml)\n```\n[d](gone)\n```\n")
        page = layout.pages["how-to/x.md"]
        self.assertIn("[a](../project/contributing.md#tests) [b](../index.md) [c](../files/examples/serve/ci.yml)", page)
        self.assertIn("[d](gone)", page)
        self.assertIn("files/examples/serve/ci.yml", layout.files)
        self.assertIn("project/contributing.md", layout.pages)

    def test_a_link_out_of_the_repository_s_files_is_refused(self):
        with self.assertRaisesRegex(build_site.SiteError, "gone.toml"):
            build_site.Layout().add(PAGE, "# X\n[a](../../gone.toml)\n")

    def test_the_order_is_that_of_the_index(self):
        index = "# I\n## How to\n| page | for |\n|---|---|\n| [A](a.md), [B](b.md#c) | [D](d.md) |\n## Empty\n"
        self.assertEqual(build_site.summary(index), [("How to", [("a.md", []), ("b.md", ["d.md"])])])
        pages = {"index.md": index, "a.md": "# `A`", "b.md": "# B", "d.md": "# Tutorial: d", "rest.md": "# Rest"}
        self.assertEqual(
            build_site.write_summary(pages),
            "# Summary\n\n[Start](index.md)\n\n# How to\n\n- [A](a.md)\n- [B](b.md)\n  - [D](d.md)\n\n# Project\n\n- [Rest](rest.md)\n",
        )
        del pages["b.md"]
        with self.assertRaisesRegex(build_site.SiteError, "b.md"):
            build_site.write_summary(pages)


class Figures(unittest.TestCase):
    def test_a_drawing_takes_its_style_along(self):
        ((svg, caption),) = build_site.drawings(REPORT)
        self.assertEqual(caption, "Why.")
        self.assertTrue(svg.startswith('<svg xmlns="http://www.w3.org/2000/svg" class="plot" aria-label="A. b"><style>.plot { fill: red; }</style>'), svg)
        self.assertTrue(svg.endswith("<svg></svg></svg>"), svg)
        self.assertNotIn("margin", svg)

    def test_a_page_gets_the_figure_that_it_asks_for(self):
        program = build_site.Program(Path("/nowhere"), False, {"pellucid demo": build_site.drawings(REPORT)})
        files: dict[str, str] = {}
        text = build_site.fill_figures("a/b.md", '<!-- figures "A": pellucid demo -->\n', program, files)
        self.assertRegex(text, r"^!\[A\]\(\.\./figures/[0-9a-f]{16}\.svg\)\n\n\*A\. Why\.\* \(`pellucid demo`\)\n")
        self.assertEqual(len(files), 1)
        with self.assertRaisesRegex(build_site.SiteError, "no such figure"):
            build_site.fill_figures("b.md", '<!-- figures "B": pellucid demo -->\n', program, files)


class Checks(unittest.TestCase):
    def site(self, folder: str) -> Path:
        site = Path(folder)
        (site / "sub").mkdir()
        (site / "index.html").write_text('<a id="here" href="sub/a.html#b">x</a><a href="gone.html">y</a><a href="#nowhere">z</a>')
        (site / "sub/a.html").write_text('<h1 id="b"></h1><h2 id="b"></h2><img src="https://elsewhere/x.png"><a rel="next" href="lone.html">n</a>')
        (site / "sub/lone.html").write_text("<p>text</p>")
        word = {"docs": {"1": {"tf": 1}}, "df": 1}
        index = {"doc_urls": ["index.html#here", "sub/a.html#b"], "index": {"index": {"body": {"root": {"d": {"i": {"e": word}}}}}}}
        (site / "searchindex-1.js").write_text(f"window.search = Object.assign(window.search, JSON.parse('{json.dumps(index)}'));")
        return site

    def test_defects_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            site = self.site(folder)
            pages = check_site.pages(site)
            self.assertEqual(check_site.broken(site, pages), [
                "index.html: gone.html: no such file",
                "index.html: #nowhere: no such anchor",
                "sub/a.html: anchor #b is there twice",
                "sub/a.html: loads https://elsewhere/x.png from another host",
            ])
            self.assertEqual(check_site.unreachable(site, pages), ["sub/lone.html"])

    def test_the_search_finds_words_and_misses_others(self):
        with tempfile.TemporaryDirectory() as folder:
            search = check_site.Search(self.site(folder))
            self.assertEqual(search.find("di"), {"sub/a.html"})
            self.assertEqual(check_site.lost_words(search, {"die": "sub/a.html", "plane": "index.html"}), ["search: plane: index.html is not found"])
            self.assertEqual(search.covered(), {"index.html", "sub/a.html"})


class PythonReference(unittest.TestCase):
    def test_every_exported_name_has_an_entry(self):
        package = build_site.ROOT / "crates/python/python/pellucid"
        page = python_reference.page(package)
        for name in python_reference.exported(package):
            self.assertIn(f"### pellucid.{name}\n", page)
        self.assertIn("`Drive.fork() -> Drive`", page)

    def test_an_exported_name_that_is_nowhere_is_refused(self):
        with self.assertRaisesRegex(python_reference.Undocumented, "p.Gone"):
            python_reference.entry("Gone", None, "p.")


class Tutorials(unittest.TestCase):
    def follow(self, text: str) -> int:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.md")
            page.write_text(text)
            return run_tutorials.follow(page, Path("/bin/true"))

    def test_a_page_is_done_from_first_to_last(self):
        self.assertEqual(self.follow("Save this as `a.txt`:\n\n```toml\none\n  two\n```\n\n```\n$ cat \\\n    a.txt\none\n...\n$ pellucid x\n```\n"), 2)

    def test_what_does_not_come_out_is_found(self):
        for text, said in (
            ("```\n$ echo a b\na  c\n```\n", "is missing: a  c"),
            ("```\n$ printf 'b\\na\\n'\na\nb\n```\n", "is missing: b"),
            ("```\n$ false\n```\n", "exit status 1"),
            ("```\n$ echo error: x\nerror: x\n```\n", "exit status 0"),
            ("```\n$ pellucid serve &\n```\n", "without --control"),
            ("no commands\n", "no command"),
        ):
            with self.assertRaisesRegex(run_tutorials.Wrong, said):
                self.follow(text)

    def test_dots_stand_for_the_rest(self):
        self.assertIsNone(run_tutorials.missing_line(("a b...", "...", "d"), "x\na  bc\nc\nd\n"))
        self.assertEqual(run_tutorials.missing_line(("a b",), "a bc\n"), "a b")

    def test_nothing_done_is_no_success(self):
        with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.md")
            page.write_text("<!-- needs: no-such-program -->\n")
            self.assertEqual(run_tutorials.lacks(page.read_text()), ["no-such-program"])


class Films(unittest.TestCase):
    def test_a_film_is_a_still_that_leads_to_its_page(self):
        class Drawn:
            def film(self, command):
                return f"<p>{command}</p>", "<svg/>"

        files: dict[str, str] = {}
        text = build_site.fill_figures("how-to/page.md", "before\n<!-- film: pellucid demo -->\nafter", Drawn(), files)
        page, still = sorted(files)
        self.assertEqual((files[page], files[still]), ("<p>pellucid demo</p>", "<svg/>"))
        self.assertIn(f"(../{still})](../{page})", text)
        self.assertTrue(text.startswith("before\n[![") and text.endswith("after"))


if __name__ == "__main__":
    unittest.main()
