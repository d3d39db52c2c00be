"""How it is scheduled: state, snapshots, policies, allocation, classes folded out of an order, and bounds."""
