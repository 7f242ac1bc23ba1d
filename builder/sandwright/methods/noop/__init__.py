"""The method that enforces nothing."""
