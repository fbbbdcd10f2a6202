"""Our own linear models, each with a certificate of how far it is from its minimiser."""
