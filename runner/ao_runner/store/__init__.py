"""The local store: sessions, runs and events in one SQLite file that several processes share."""
