"""What happened in a run, in numbers: from packets, logs and simulations to rows, figures and a verdict."""
