"""The clauses, one file per area. ``python -m spec_tests clauses`` prints them."""
