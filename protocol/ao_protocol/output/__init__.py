"""What an answer must look like, how it is asked for, found in text, and judged."""
