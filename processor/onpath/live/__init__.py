"""Judging in the agent's own process: what stands behind `OnPathSpanProcessor` and the exporter.

Data flow: the SDK's hooks -> inbox (bounded, lock-free) -> judging thread: book (what is open, what has ended, limits)
-> released traces -> evaluate -> outlets (callbacks, the process's own providers), or handed on to a collector.
"""
