"""The formats of raw feedback, one small file each. Adding one is a file here and a test beside the others.

A file holds a subclass of `preflow.formats.base.Format` with a name, what it expects in words, when it recognises a
record, and the rows that a record states. Files are found by themselves; there is no list to edit.
"""
