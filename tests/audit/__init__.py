"""The campaigns of `make audit`. One may use a test of another room, as pytest's own path lets tests do."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path += sorted({str(file.parent) for file in TESTS.rglob("test_*.py")})
