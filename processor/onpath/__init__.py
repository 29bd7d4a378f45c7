"""onpath keeps AI agents on path: checks recorded or live agent traces against declared workflows."""
