"""What docs/results.md says in words: how each number is defined, and what the numbers were found to mean."""

HEAD = """\
# Results

Written by `echelon study`, which measures what is missing and writes this page and its pictures; no number is typed by
hand. All of it is **simulated**: flows are fluids, decisions take no time (emulated runs are compared with such
simulations by `echelon bench fidelity`). {measured} of {wanted} random cases are in it, each made from a seed, so that any can be made
again. Intervals are 95 % (Student's t over cases). Iteration time is the mean over jobs of the mean over a job's
iterations; tardiness is the weighted sum over all groups; *above bound* is the distance from a lower bound that no
scheduler can beat (`echelonflow/bounds`), which includes what the bound itself lacks."""
MIXED = "x"
PATTERNS = "x"
WHY = "x"
GAPS = "x"
TINY = "x"
PROPERTY = "x"
