"""What spends add up to, what a cap allows, and the durable history of both."""
