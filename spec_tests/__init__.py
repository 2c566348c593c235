"""The conformance suite: what the training lifecycle is, asked of any implementation of it."""
