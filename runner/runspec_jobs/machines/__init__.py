"""The machines that providers rent out: what they have, what they cost, and which of them a job gets."""
