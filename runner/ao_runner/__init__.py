"""Runs executors as processes and relays what they say."""
