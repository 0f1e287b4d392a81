"""Executors for agents of the Agent Client Protocol, version 1: one program for each known agent, and a generic one."""
