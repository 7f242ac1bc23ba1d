"""Code that several methods share. Nothing in here is a method."""
