"""How a job runs on the nodes that it got."""
