"""Reward models on frozen embeddings, and what they are made of."""
