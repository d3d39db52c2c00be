"""The controller: a pure coordinator (state, policy, plan, rules) in a thin shell on Ryu or os-ken."""
