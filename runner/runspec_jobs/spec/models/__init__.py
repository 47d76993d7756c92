"""The parts of a spec, each a frozen model; `spec.model` has the whole."""
