"""The host side of the wall: containers, the stream, the driver."""
