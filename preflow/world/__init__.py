"""Feedback whose truth is known: verifiable instructions, simulated annotators, a small real policy."""
