"""The broker: serves a queue to clients that do not reach its storage, or shall not."""
