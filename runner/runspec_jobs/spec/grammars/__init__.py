"""Grammars of texts in a spec that others define."""
