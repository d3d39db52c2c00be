"""Random jobs, groups and patterns of communication, drawn by number: what benchmarks and the study measure policies on."""
