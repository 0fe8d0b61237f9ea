"""The command beside the package: that of this checkout."""
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
os.environ.setdefault("PELLUCID", str(ROOT / "target/debug/pellucid"))
pytest_plugins = ["pytester"]

SMALL = {"media.blocks": 128}


@pytest.fixture
def small():
    """A small drive, which fills in a moment."""
    import pellucid as pl

    return pl.Drive("netbook-ssd", overrides=SMALL)


@pytest.fixture
def job():
    """A thousand random writes."""
    import pellucid as pl

    return pl.Job(rw="randwrite", bs="4k", iodepth=4, number_ios=1000)
