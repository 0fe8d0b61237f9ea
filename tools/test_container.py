"""The image of examples/serve/Containerfile is built from what .dockerignore lets in, and the crates compile with nothing else."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def let_in() -> list[Path]:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return [ROOT / line[1:] for line in lines if line.startswith("!")]


def included() -> dict[Path, Path]:
    """Files that Rust sources take in at compile time, each with the source that does."""
    pattern = re.compile(r'include(?:_str|_bytes)?!\(\s*"([^"]+)"')
    found = {}
    for source in (ROOT / "crates").rglob("*.rs"):
        for name in pattern.findall(source.read_text()):
            found[(source.parent / name).resolve()] = source
    return found


class Container(unittest.TestCase):
    def test_what_the_crates_take_in_is_in_the_context_of_the_image(self):
        allowed = let_in()
        self.assertGreater(len(included()), 20)
        # Integration tests and examples are not compiled for the image.
        for path, source in included().items():
            if "tests" in source.relative_to(ROOT).parts or source.name.startswith("test"):
                continue
            self.assertTrue(path.exists(), f"{source.relative_to(ROOT)} takes in {path}, which is not there")
            self.assertTrue(any(path.is_relative_to(one) for one in allowed),
                            f"{source.relative_to(ROOT)} takes in {path.relative_to(ROOT)}, which .dockerignore leaves out")


if __name__ == "__main__":
    unittest.main()
