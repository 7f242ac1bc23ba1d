"""A day's work in real projects: where their sources come from, and what is done with them."""
