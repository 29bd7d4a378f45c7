"""How each attribute family spells a step: one module a family, one table that orders them.

`table` is what the steps are made with: `claim_of` gives a span its role, `READERS`, `USAGE` and `EVENTS` say under
which keys its facts stand. `base` says what a family is made of; `values`, `results` and `messages` read what the keys
hold.
"""
