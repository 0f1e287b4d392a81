"""A suite for runners: hostile executors are played at a runner's command, and what it reports is judged (SPEC 11)."""
