"""Executors, and the toolkit that they are made with."""
