"""How each attribute family spells a step: one module a family, one table that orders them."""
