"""`ao-http-exec`: any executor of this protocol in the place of one of the older HTTP protocol."""
