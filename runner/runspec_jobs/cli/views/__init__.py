"""What verbs show of plans, of runs and of their nodes, as text and for JSON."""
