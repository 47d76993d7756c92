"""What all emulators share."""
