"""Sweeps: one plan, many points, on this machine's cores, on Dask or on Ray.

    import pellucid.sweep
    sweep = pellucid.sweep.run("plan.toml")
    sweep.frame()                         # a tidy table: a column for each axis, the seed, and what the plan keeps

Each point is one file with its resolved description, its seed, the version and the hashes of its inputs. A point gives the same bytes
wherever it runs. A sweep that was interrupted goes on where it was.
"""
from .engines import ENGINES
from .plan import Plan
from .points import Point, run_point
from .results import Sweep, run

__all__ = ["ENGINES", "Plan", "Point", "Sweep", "run", "run_point"]
