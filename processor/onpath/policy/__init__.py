"""The policy file: what is declared, checked as a whole before anything runs."""
