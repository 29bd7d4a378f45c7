"""The checks; each is independent of the others."""
