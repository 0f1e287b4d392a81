"""Projects of new executors, in one of several languages, which conform to the protocol at core."""
