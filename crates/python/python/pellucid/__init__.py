"""Drives, runs and their results, for notebooks and scripts.

    import pellucid as pl

    drive = pl.Drive("cosmos-plus", ftl={"victim": "cost-benefit"})
    result = drive.run(pl.Job(rw="randwrite", bs="4k", iodepth=64, number_ios=100_000))
    result.report.write_amplification.total
    result.requests.to_pandas()

A report is that of the command: `result.json()` is what `pellucid run --json` prints. Equal inputs give equal bits.
"""
from . import snia, sweep
from ._pellucid import Candidate, Die, Error, __version__, keys, presets
from .claims import Reproduced, reproduce
from .drive import Drive, age, compare, fork, replay, run
from .policies import EvictionPolicy, PlacementPolicy, VictimPolicy
from .repeated import Repeated, Runs
from .result import Comparison, Report, Result
from .serving import Served, serve
from .table import Table
from .sweep import Plan
from .work import Job, Trace

__all__ = [
    "Candidate", "Comparison", "Die", "Drive", "Error", "EvictionPolicy", "Job", "PlacementPolicy", "Plan", "Repeated", "Report",
    "Reproduced", "Result", "Runs", "Served", "Table", "Trace", "VictimPolicy", "__version__", "age", "compare", "fork", "keys", "presets", "replay", "reproduce", "run", "serve", "snia", "sweep",
]
