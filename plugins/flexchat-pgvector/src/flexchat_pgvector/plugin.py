"""What this package brings."""
