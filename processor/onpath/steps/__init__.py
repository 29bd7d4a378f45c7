"""From spans to steps (steps.md): what an agent did.

`recognise(trace)` reads every span once; `Recognition.scopes()` gives the scopes with their steps.
"""

from onpath.steps.recognise import Recognition, recognise, steps_of

__all__ = ["Recognition", "recognise", "steps_of"]
