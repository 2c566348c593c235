"""Proof that the suite can fail."""
