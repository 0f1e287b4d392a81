"""Start processes, contain them, and end them with all their descendants."""
