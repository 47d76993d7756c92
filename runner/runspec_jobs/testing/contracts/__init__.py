"""The promises of clients, a class for each kind; each class adds to the one before."""
