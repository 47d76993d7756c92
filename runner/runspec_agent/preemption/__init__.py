"""Notices that a machine is about to be preempted, as each cloud gives them."""
