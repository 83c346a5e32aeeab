"""Preflow: from raw human and AI feedback to audited, versioned, training-ready preference data.

The library knows no orchestrator and no version control: every module is plain functions on polars frames, torch
tensors and values, and is useful alone.
"""
