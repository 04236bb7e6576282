"""What turns the outside world into events."""
