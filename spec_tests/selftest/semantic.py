"""Mutants written by hand: each is wrong in a way that matters, and names the clause that sees it."""

SEMANTIC = []

EQUIVALENT = {}
