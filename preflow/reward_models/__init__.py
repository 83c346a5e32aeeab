"""Rewards of every kind under one question: what is this response worth, beside that one."""
