"""Measurements: speed and size, not truth. Tests make no claims of time; these do."""
