"""What the executors of vendors' agents have in common. Their own packages only translate the format of a vendor."""
