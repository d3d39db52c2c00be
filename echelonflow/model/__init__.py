"""What is scheduled: networks, job DAGs, arrangement functions, and the units that all numbers carry."""
