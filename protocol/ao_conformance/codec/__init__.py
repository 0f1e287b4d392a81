"""The suite for parsers: questions on stdin, answers on stdout, no process rules. Any language can take part."""
