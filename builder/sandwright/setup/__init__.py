"""Dependencies from the distribution: `requirements` lists them, `plan` installs them."""
