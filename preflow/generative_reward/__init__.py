"""A generative reward model: a language model that reads two responses and answers with the name of the better one.

Wang et al., "GRAM: A Generative Foundation Reward Model for Reward Generalization", ICML 2025 (arXiv 2506.14175).
"""
