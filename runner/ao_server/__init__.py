"""`ao serve`: pages, an HTTP API, callbacks and an MCP server over a store. Executors validate results."""
