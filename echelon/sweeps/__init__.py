"""Many runs of one experiment with other values, each of them a cell that is made once and kept."""
