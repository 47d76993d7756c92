"""How the nodes of one attempt find each other, and whether they can talk."""
