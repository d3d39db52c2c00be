"""The agent of one emulated host: replays its part of the jobs over real TCP."""
