"""What private training adds to the suites that test all methods alike."""

WITHOUT_PERSONS_MEANS = "dp_hypo"  # a method with no proof where each person's mean counts once
