"""`ao-procedural-exec`: agents that are programs, with parameters as arguments and JSON on stdout."""
