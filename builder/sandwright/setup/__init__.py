"""What comes from the distribution: `requirements` says what that is, `plan` installs it."""
