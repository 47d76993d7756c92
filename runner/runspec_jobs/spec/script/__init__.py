"""What stands in the command or the script of a spec."""
