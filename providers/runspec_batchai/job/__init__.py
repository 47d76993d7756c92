"""The body of a Batch AI job: its toolkit and its command line."""
