"""The long forms of what can go wrong with a collector, each through the real process: `make faults`.

Every scenario ends with the collector's own last line, whose counts must add up, and prints it.
"""
