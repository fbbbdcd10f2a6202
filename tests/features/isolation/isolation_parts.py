"""What isolation adds to the suites that test all ways of scoring alike."""
