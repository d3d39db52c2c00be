"""Inside one job: which of its own transfers goes to the network next. Pure, without a clock, for agents and simulator alike."""
