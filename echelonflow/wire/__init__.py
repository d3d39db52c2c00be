"""What agents and the controller agree on: messages, declarations with their ports, DSCP classes."""
