"""Carrying out plans: apply, undo, adopt, and the secrets that requests need."""
