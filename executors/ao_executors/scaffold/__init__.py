"""New executors: a project in one of several languages that keeps the core of the protocol from its first minute."""
