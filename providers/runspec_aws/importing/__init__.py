"""Import of job definitions: `definitions` finds them, `cloudformation` resolves templates, the others write specs."""
