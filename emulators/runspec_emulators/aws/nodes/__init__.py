"""The machines of jobs: what they have, what they tell, and the containers that they run."""
