"""Plans: every request of a run, word for word, and how two plans differ."""
