"""Import and export of Batch AI's files: `runspec import` and `runspec plan --export`."""
