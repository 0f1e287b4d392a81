"""The suite for runners: the runner's command starts hostile executors, and its report is judged (SPEC 11)."""
