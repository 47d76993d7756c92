"""Makes what accounts lack before their first job: its steps are carried out by the engine of runs."""
