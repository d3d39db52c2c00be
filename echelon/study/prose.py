"""What docs/results.md says in words: how each number is defined, and what makes it so. Numbers are not among them."""

HEAD = """\
# Results

Written by `echelon study`, which measures what is missing and writes this page and its pictures; no number is typed by
hand. All of it is **simulated**: flows are fluids, decisions take no time (`echelon bench fidelity` sets such
simulations beside emulated runs). {measured} of {wanted} random cases are in it so far, each made from a seed, so that
any can be made again. Where few are in, intervals are wide, and running the command again goes on. Intervals are 95 %
(Student's t over cases). Iteration time is the mean over jobs of the mean over a job's iterations. Tardiness is the
weighted sum over all groups. *Above bound* is the distance from a lower bound that no scheduler can beat
(`echelonflow/scheduling/bounds`), which includes what the bound itself lacks. Coflow is SEBF order with MADD rates,
with each collective or micro-batch a Coflow (`collective`), or with a whole EchelonFlow as one (`group`)."""

MIXED = """\
Two to four jobs of random patterns share one link or an oversubscribed leaf-spine. Alone, each would keep its slowest
link busy for a quarter to twice as long as it computes. Ratios are geometric means over cases; wins, ties and losses
are against Coflow `collective`, by mean iteration time."""

PATTERNS = """\
Mean iteration time relative to Coflow `collective`; below 1 is better than it. *Alone*: one job. *Beside its like*: two
jobs of the same pattern. Wins, ties and losses are those of EchelonFlow's
default form; the last column is its order that was best in that family, with its ratio. `tardiness` is the paper's own
order."""

WHY = """\
The table below says how much; this is what theory leads one to expect as the reasons (not measured one by one):

- **Against whole-group Coflow** EchelonFlow's gain is the paper's own. Coflow lets all flows of a group finish
  together, so the first micro-batch (or the first gathered layer) arrives as late as the last. GPUs idle that had work.
  Where a group's flows are consumed together (gradient buckets, tensor-parallel and expert all-to-alls) both are, with
  `order=remaining`, the same policy (the paper's Property 2).
- **Against Coflow properly grouped** little is left when a job is alone. Its collectives are released in the order in
  which they are consumed, and one whose transmission has begun has the least left. So SEBF keeps the order of release
  most of the time, which is the staggered order. They part where sizes differ (a small collective overtakes a larger
  one that is wanted earlier: parameter pulls, prefetched layers), and where several jobs or groups compete.
- **The literal order `tardiness`** ranks groups by the least maximum tardiness they can still have. That includes what
  is already lost: a group that is late goes behind one that has just begun, which makes it later still. The sum that
  is to be minimised gains nothing by it, because lateness that no decision can undo is a constant. `extra` leaves
  that constant out, `remaining` looks at the bytes left only; both let work that is nearly done finish (shortest remaining
  first), which is what minimises a sum.
- **Orders of stages instead of groups** (`due`, `job`) let an urgent stage of one group overtake a later stage of
  another. A group as a whole is too coarse a unit where its flows are wanted at times far apart. `job` also keeps one
  order of jobs for good: jobs that compete fall into step, one computing while another sends."""

GAPS = """\
Random sets of 2 to 6 groups, staggered EchelonFlows and Coflows mixed, of weight 1 or 2. Their releases are known
beforehand, so that the sum of tardiness can be bounded from below (linear programs with branching; proof in
`echelonflow/scheduling/bounds/several.py`). The same instances as `echelon bench gap`. A gap counts the policy's loss
and what the bound lacks; policies do not know releases that are still to come, the bound does."""

TINY = """\
One job of at most five flows on one link, one iteration: all orders of flows are simulated, each served in that order
as fast as its path allows. The best of them is an upper reference: a schedule that exists."""

PROPERTY = """\
The paper's Property 1 says that scheduling for least tardiness minimises completion times. For one EchelonFlow that
holds all of a job's flows, with offsets derived from the DAG, a weaker statement can be proven. No step starts later
than without a network by more than the tardiness (`tests/unit/test_property_1.py`), so tardiness bounds the loss.
Beyond that it is a matter of counting. Every case is run under random orders of flows and some policies. For each two
schedules of a case that differ in total tardiness: is the less tardy one's mean iteration time shorter, equal or
longer? *Least tardy is shortest*: cases whose least tardy schedule has the shortest iterations of all that were
tried."""

SMALLEST = """\
Two flows are enough. A flow of 2 s leads to 10 s of computation, one of 1 s to none, each a group of its own, both
released at once on one link. The short one first: tardiness 1 + 3 = 4 s, and the job ends after 13 s. The long one
first: tardiness 2 + 3 = 5 s, and it ends after 12 s. A sum over groups does not know what each holds up; nor does a
maximum within one group, if what follows the flows differs (both are tests). Found among the tiny jobs:"""
