#!/bin/sh
# Tries a wheel where nothing of ours is: installed into a new environment without an index, it runs work from an empty directory.
# Usage: try_wheel.sh WHEEL
set -eu
wheel=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
cd "$scratch"
venv/bin/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps "$wheel"
# Isolated (-I): nothing of the current directory or of PYTHONPATH is imported.
venv/bin/python -I - <<'PY'
import pellucid as pl

result = pl.Drive("netbook-ssd").run(pl.Job(rw="randwrite", bs="4k", number_ios=2_000))
if result.report.requests != 2_000:
    raise SystemExit(f"{result.report.requests} requests were done; 2,000 were asked for")
print(f"wheel: {pl.__version__} installed in a new environment, {result.report.requests:,} requests done")
PY
