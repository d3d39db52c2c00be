"""From an experiment file to a checked `Experiment`."""
