"""Objects of runs in a store of a service: what several providers write, read and publish there."""
