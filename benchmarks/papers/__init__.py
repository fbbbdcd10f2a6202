"""Every printed number of the three papers beside ours: `make papers`."""
