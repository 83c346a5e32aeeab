"""Entry point of `python -m pipelines`."""

from pipelines.cli import app

app()
