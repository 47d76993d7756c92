"""Problems of a spec or a profile, and how they are printed."""
