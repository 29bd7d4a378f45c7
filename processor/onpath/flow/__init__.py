"""Patterns of steps and how a run is laid over them (flow.md sections 3 to 6 and 11).

`names` and `pattern` are what a policy asks for; `board` holds what is known of each step; `lane`, `bits` and `rows`
lay items over steps, `blocks`, `timing` and `assignment` are the inside of a parallel block; `partial` judges traces
that are not complete, `near_miss` says where a match broke, `ties` whether the clock left the order open.
"""
