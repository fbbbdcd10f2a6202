"""Where hyperparameters live: the box (`SearchSpace`) and the finite set Λ in it (`CandidateSet`)."""
