"""What HTTP calls the things that clients and brokers send each other."""

PROTOBUF = "application/x-protobuf"
BYTES = "application/octet-stream"
