"""Treatments of the training data: each turns preference pairs into a derived dataset with a reason per row."""
