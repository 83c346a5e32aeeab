"""Policies: the one that every treatment starts from, the ones trained on treated pairs, and what they say."""
