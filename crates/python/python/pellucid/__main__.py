"""`python -m pellucid sweep PLAN.toml`; everything else is the command `pellucid`."""
import sys

from .sweep.results import main

if __name__ == "__main__":
    if sys.argv[1:2] != ["sweep"]:
        given = " ".join(sys.argv[1:]) or "nothing"
        print(f"error: {given}: allowed: python -m pellucid sweep PLAN.toml; for everything else, the command pellucid", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[2:]))
