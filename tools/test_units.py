"""The systemd unit keeps a served drive in a sandbox."""

import shutil
import subprocess
import unittest
from pathlib import Path

UNIT = Path(__file__).resolve().parent.parent / "examples/serve/pellucid@.service"
# Tenths of systemd's exposure level, from 0 (sandboxed) to 100 (unprotected).
EXPOSURE_MAX = 15


class Units(unittest.TestCase):
    def test_the_unit_is_unprivileged_and_writes_to_its_own_directories_only(self):
        lines = UNIT.read_text().splitlines()
        for line in ("DynamicUser=yes", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "ProtectSystem=strict"):
            self.assertIn(line, lines)
        self.assertFalse([line for line in lines if line.startswith(("User=", "ReadWritePaths="))])

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is missing")
    def test_systemd_finds_little_exposure(self):
        command = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager", str(UNIT)]
        done = subprocess.run(command, capture_output=True, text=True)
        if "unrecognized option" in done.stderr:
            self.skipTest("systemd-analyze knows no --offline")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
