"""From spans to steps (steps.md): what an agent did."""
