"""Tests of check_packages.py: made-up `cargo metadata` in, complaints out."""
import unittest

import check_packages

REGISTRY = "https://example.org/index"
RULES = {
    "licenses": {"allow": ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]},
    "sources": {"allow-registry": [REGISTRY]},
}


def package(name="a", version="1.0.0", licence="MIT", source=f"registry+{REGISTRY}", dependencies=()):
    return {"name": name, "version": version, "license": licence, "source": source, "dependencies": list(dependencies)}


def complaints(*packages, rules=RULES):
    return check_packages.complaints({"packages": packages}, rules)


class Licences(unittest.TestCase):
    def test_expressions(self):
        allowed = set(RULES["licenses"]["allow"])
        for expression, met in {
            "MIT": True,
            "GPL-3.0": False,
            "MIT/GPL-3.0": True,
            "MIT OR GPL-3.0": True,
            "GPL-3.0 OR MIT": True,
            "MIT AND GPL-3.0": False,
            "GPL-3.0 AND MIT OR Apache-2.0": True,
            "GPL-3.0 AND (MIT OR Apache-2.0)": False,
            "(MIT OR GPL-3.0) AND Apache-2.0": True,
            "Apache-2.0 WITH LLVM-exception": True,
            "MIT WITH LLVM-exception": False,
        }.items():
            self.assertEqual(check_packages.is_allowed(expression, allowed), met, expression)

    def test_what_is_no_expression_is_named(self):
        for expression in ("", "MIT OR", "(MIT", "MIT)", "MIT GPL-3.0", "AND MIT"):
            self.assertEqual(complaints(package(licence=expression)), [f"a 1.0.0: licence {expression}: not an SPDX expression"])

    def test_a_missing_licence_is_named(self):
        self.assertEqual(complaints(package(licence=None)), ["a 1.0.0: names no licence"])


class Sources(unittest.TestCase):
    def test_another_registry_and_git_are_refused(self):
        for source in ("registry+https://example.com/index", "git+https://example.org/index"):
            (line,) = complaints(package(source=source))
            self.assertIn(f"source {source}: not allowed", line)

    def test_a_crate_of_ours_says_which_versions_it_takes(self):
        any_version = {"name": "b", "req": "*"}
        (line,) = complaints(package(source=None, dependencies=[any_version]))
        self.assertEqual(line, "a 1.0.0 -> b: any version (*) is not allowed")
        self.assertEqual(complaints(package(source=None, dependencies=[{**any_version, "path": "/b"}])), [])
        self.assertEqual(complaints(package(dependencies=[any_version])), [])


class Rules(unittest.TestCase):
    def test_an_unknown_rule_is_not_ignored(self):
        (line,) = complaints(rules={**RULES, "bans": {"deny": ["openssl"]}})
        self.assertIn("bans.deny: unknown", line)

    def test_versions_are_counted(self):
        several = check_packages.several_versions({"packages": [package(), package(version="2.0.0"), package("b")]})
        self.assertEqual(several, ["a: 1.0.0, 2.0.0"])


if __name__ == "__main__":
    unittest.main()
