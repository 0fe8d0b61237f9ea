"""`python -m pellucid sweep PLAN.toml`; everything else is the command `pellucid`."""
import os
import sys

from .sweep.results import main

if __name__ == "__main__":
    if sys.argv[1:2] != ["sweep"]:
        given = " ".join(sys.argv[1:]) or "nothing"
        print(f"error: {given}: allowed: python -m pellucid sweep PLAN.toml; for everything else, the command pellucid", file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(main(sys.argv[2:]))
    except BrokenPipeError:
        # The reader has enough (`| head`). Python would complain once more when it closes its output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
