"""What a value must be: trees of validators over the record of a step or a scope (flow.md sections 7 and 8).

`tree` holds the trees, `checks` the validators, `record` finds a part of a step or scope, `outcome` says what a look
can end in. Pure: what needs a judge is left as a question.
"""
