"""How the assets run: definitions, I/O, the gate, the DVC bridge and the command line."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
