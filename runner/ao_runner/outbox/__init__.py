"""A store that makes events durable before they are sent."""
