"""Tuning of what job schedulers are told: the size of partitions and the credit. On top of what runs experiments."""
