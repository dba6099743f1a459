"""The client: a queue that is reached by way of its brokers."""
