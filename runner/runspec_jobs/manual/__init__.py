"""What `runspec explain` looks up: links to pages in docs, and the module that reads their tables."""
