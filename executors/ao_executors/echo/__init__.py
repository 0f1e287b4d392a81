"""`ao-echo-exec`: the smallest valid executor."""
