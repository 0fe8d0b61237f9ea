"""The notebooks of examples/notebooks run from top to bottom."""
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "examples/notebooks"
#: Packages that only one notebook needs.
NEEDED = {"learned-policy": ["sklearn"], "design-space": ["scipy", "optuna"]}
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_is_a_notebook_for_each_user():
    assert [path.stem for path in NOTEBOOKS] == [
        "broken-database", "design-space", "figure-from-a-trace", "learned-policy", "sweep-on-dask", "victim-policies",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for module in NEEDED.get(path.stem, ()):
        pytest.importorskip(module)
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    # Outputs belong to those who run it.
    assert all(not cell.get("outputs") for cell in notebook.cells)
    # What a notebook writes goes away with the test; the trace is found from the folder above it.
    (tmp_path / "examples").symlink_to(FOLDER.parent)
    monkeypatch.chdir(tmp_path)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=tmp_path)
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert shown and not [output for output in shown if output.output_type == "error"]
