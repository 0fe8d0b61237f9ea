"""The Grafana dashboard asks for metrics that exist, with labels that they have."""
import json
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DASHBOARD = ROOT / "examples/grafana/pellucid.json"
# Generated from the code; a test of the command keeps it so.
METRICS = ROOT / "docs/reference/metrics.md"
EXPORTER = ROOT / "crates/monitor/src/prometheus.rs"
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


def offered() -> set[str]:
    """All series that `/metrics` may have."""
    rows = re.findall(r"^\| `(pellucid_\w+)` \| (\w+) \|", METRICS.read_text(), re.MULTILINE)
    return {name + suffix for name, kind in rows for suffix in SUFFIXES.get(kind, ("",))}


def expressions(dashboard: dict) -> list[str]:
    """Every query of the dashboard."""
    queries = [variable["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    return queries + [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


class Dashboard(unittest.TestCase):
    def setUp(self):
        self.dashboard = json.loads(DASHBOARD.read_text())

    def test_every_metric_exists(self):
        asked = {name for query in expressions(self.dashboard) for name in re.findall(r"pellucid_\w+", query)}
        self.assertGreater(len(asked), 15)
        self.assertEqual(asked - offered(), set())

    def test_every_label_is_one_that_is_written(self):
        text = EXPORTER.read_text()
        legends = [target["legendFormat"] for panel in self.dashboard["panels"] for target in panel["targets"]]
        labels = {label for legend in legends for label in re.findall(r"{{(\w+)}}", legend)}
        self.assertEqual({label for label in labels if f'("{label}", ' not in text}, set())

    def test_panels_have_places_and_names_of_their_own(self):
        panels = self.dashboard["panels"]
        places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
        self.assertEqual((len(places), len({panel["id"] for panel in panels})), (len(panels), len(panels)))


if __name__ == "__main__":
    unittest.main()
