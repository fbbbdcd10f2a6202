"""What is claimed of speed, memory and accuracy, one script a claim: `make bench`."""
