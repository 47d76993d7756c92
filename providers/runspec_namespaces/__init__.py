"""Roots of their own for processes: of the provider `local`, and of emulated machines. Standard library only."""
