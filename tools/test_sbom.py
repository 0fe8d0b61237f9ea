"""The bill of materials names what goes into the command, and nothing that only tests need."""

import json
import unittest
from pathlib import Path

import sbom

ROOT = Path(__file__).resolve().parent.parent


class Bill(unittest.TestCase):
    def setUp(self):
        self.bill = sbom.bill(sbom.metadata(sbom.host()))

    def test_it_names_dependencies_of_the_program_and_none_of_its_tests(self):
        names = {component["name"] for component in self.bill["components"]}
        self.assertTrue({"ring", "serde_json", "pellucid-flash", "uPlot"} <= names, names)
        self.assertFalse({"proptest"} & names, names)

    def test_every_package_has_a_licence_and_every_reference_leads_somewhere(self):
        bill = self.bill
        references = {component["bom-ref"] for component in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
        for component in bill["components"]:
            self.assertIn("licenses", component, component["name"])
        for dependency in bill["dependencies"]:
            self.assertTrue(set(dependency["dependsOn"]) <= references, dependency)

    def test_equal_sources_give_equal_bytes(self):
        again = sbom.bill(sbom.metadata(sbom.host()))
        self.assertEqual(json.dumps(self.bill), json.dumps(again))


if __name__ == "__main__":
    unittest.main()
