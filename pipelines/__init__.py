"""How the assets run: definitions, I/O, the gate, the DVC bridge and the command line."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# The last bits of a sum depend on how many threads it is split over, so numpy and torch start with one, on every
# machine. A stage that is worth more asks for them in its params. polars is exact with any number.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A bar for every small file that is read or written says nothing in a log.
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
