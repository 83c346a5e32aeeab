"""Distillation with an oracle: seeing teacher hacking, and stopping it.

Tiapkin et al., "On Teacher Hacking in Language Model Distillation", ICML 2025, arXiv 2502.02671. A student learns from
a teacher that is itself only an approximation of an oracle. Teacher hacking is that the student comes closer to the
teacher and at the same time goes away from the oracle. See `docs/teacher_hacking.md`.
"""
