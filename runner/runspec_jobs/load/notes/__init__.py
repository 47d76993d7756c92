"""Notes about what is nearly always a mistake in the command or the script of a spec."""
