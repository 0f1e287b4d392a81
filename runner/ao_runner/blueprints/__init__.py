"""What people write: blueprints, parameters and placeholders."""
