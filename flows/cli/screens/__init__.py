"""What the command prints, a screen a file: for people in 80 columns or spoken, for programs one JSON object."""
