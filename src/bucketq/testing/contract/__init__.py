"""The parts of QueueContract, one noun a file."""
