"""One run, from what is asked for to its terminal event and record."""
