"""The verbs, their options, and the completion of words. The modules of `cli` carry the verbs out."""
