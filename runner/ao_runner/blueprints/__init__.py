"""Blueprints, parameters and placeholders that people write."""
