"""The kubelets: pods as processes, their volumes, variables and logs, and streams to them."""
