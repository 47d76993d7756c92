"""The files of jobs in Blob Storage."""
