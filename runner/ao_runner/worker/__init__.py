"""A worker: takes runs from a coordinator, performs them side by side, and delivers every event of theirs."""
