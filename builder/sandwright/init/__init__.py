"""How a project comes to a policy of its own: what is looked at, and what is proposed for it."""
