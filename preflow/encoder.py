"""Sentence embeddings of distinct responses."""

import dataframely as dy

from preflow.schemas import hash_column


class ResponseEmbeddings(dy.Schema):
    """One row per distinct response text of the pairs: its sentence embedding."""

    text_id = hash_column("Hash of the text.", primary_key=True)
    embedding = dy.List(dy.Float32(), min_length=1, description="Unit-length sentence embedding.")
