"""What the feedback is worth as it stands: duplicates, contradictions, splits, votes and annotators."""
