"""Plans: all requests of a run, and the differences between two plans."""
