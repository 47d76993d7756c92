"""When would a job finish, and what would it cost: fixed machines against machines that come and go."""
