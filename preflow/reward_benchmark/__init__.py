"""Rewards measured: on one's own pairs by subset, and on published benchmarks as their authors weigh them."""
