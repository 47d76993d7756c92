"""Run jobs on the nodes that were allocated to them."""
