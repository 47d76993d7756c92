"""How the nodes of one attempt find each other, and whether they can connect to each other."""
