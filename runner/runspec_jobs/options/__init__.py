"""What can be typed after each verb: one class of options for each, from which all else is made."""
