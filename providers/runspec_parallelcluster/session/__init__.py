"""The program `pcluster` and its environment."""
