"""The AO executor protocol in Python: documents, rules and text, without any I/O."""
