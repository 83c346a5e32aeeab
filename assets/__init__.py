"""What exists: one module per stage family. Module name = Dagster group = section of params.yaml.

An asset names its inputs, calls the library and returns its value. A library module that imports torch, altair or
another heavy package is imported inside the asset that uses it, so that drawing the graph costs nothing.
"""
