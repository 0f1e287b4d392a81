"""A coordinator behind a REST interface."""
