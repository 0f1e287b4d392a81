"""Runs executors as processes and relays their events."""
