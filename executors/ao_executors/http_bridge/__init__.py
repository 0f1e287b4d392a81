"""`ao-http-exec`: any executor of this protocol for a runner of the older HTTP protocol."""
