"""Interaction plans (`plan!`): which calls a run holds, in which order, with whose values, and what must be true.

`model` is the plan, `compile` refuses plans that can't be judged, `select` finds the call of each step, `relate` reads
the checks, `verdict` says what it comes to. `policy.plan` makes plans of documents.
"""
