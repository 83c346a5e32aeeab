"""Concepts under noisy labels: data sets of concepts, planted noise, and models that predict through concepts."""
