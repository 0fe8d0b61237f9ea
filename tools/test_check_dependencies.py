"""The dependency check lets good arrows pass and catches forbidden ones."""
import unittest

from check_dependencies import ALLOWED, complaints


def workspace(*arrows: tuple) -> dict:
    """Metadata with one package per arrow (from, to[, kind])."""
    packages = []
    for source, target, *kind in arrows:
        dependency = {"name": target, "kind": kind[0] if kind else None}
        packages.append({"name": source, "dependencies": [dependency]})
    return {"packages": packages}


class Arrows(unittest.TestCase):
    def test_good_arrows_pass(self):
        good = workspace(
            ("pellucid-media", "pellucid-flash"),
            ("pellucid-device", "pellucid-ftl"),
            ("pellucid-lab", "serde"),
            ("pellucid-cli", "pellucid-lab"),
            ("pellucid-cli", "pellucid-serve"),
        )
        self.assertEqual(complaints(good), [])

    def test_forbidden_arrows_are_named(self):
        for source, target in [
            ("setting", "flash"),
            ("flash", "media"),
            ("media", "ftl"),
            ("ftl", "media"),
            ("wire", "device"),
            ("device", "lab"),
            ("host", "device"),
            ("prism", "device"),
            ("kv", "device"),
            ("serve", "lab"),
            ("lab", "cli"),
        ]:
            with self.subTest(source=source, target=target):
                (line,) = complaints(workspace((f"pellucid-{source}", f"pellucid-{target}")))
                self.assertTrue(line.startswith(f"pellucid-{source} -> pellucid-{target}: not allowed"), line)

    def test_dependencies_of_tests_and_builds_count(self):
        for kind in ("dev", "build"):
            (line,) = complaints(workspace(("pellucid-host", "pellucid-device", kind)))
            self.assertIn(f"({kind}-dependency)", line)

    def test_a_crate_without_a_place_is_refused(self):
        for name in ("pellucid-misc", "helper"):
            (line,) = complaints({"packages": [{"name": name, "dependencies": []}]})
            self.assertTrue(line.startswith(f"{name}: not a room"), line)

    def test_the_table_has_no_cycle(self):
        def reach(room, seen):
            for target in ALLOWED[room] or ():
                self.assertNotIn(target, seen)
                reach(target, seen | {target})

        for room in ALLOWED:
            reach(room, {room})


if __name__ == "__main__":
    unittest.main()
