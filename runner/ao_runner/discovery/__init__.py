"""Which executors there are, what they say of themselves, and whether this machine can run them."""
