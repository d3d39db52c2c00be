"""What docs/results.md says in words: how each number is defined, and what makes it so. Numbers are not among them."""

HEAD = """\
# Results

Written by `echelon study`, which measures what is missing and writes this page and its pictures; no number is typed by
hand. All of it is **simulated**: flows are fluids, decisions take no time (`echelon bench fidelity` sets such
simulations beside emulated runs). {measured} of {wanted} random cases are in it. Each is drawn from the name of its section and
its number alone, by `random.Random("study/NAME/NUMBER")`, so any can be made again. All sizes are made larger or smaller by up to
0.1 %, at random, so that nothing hangs on a tie. Where cases are missing, the same command goes on:

    .venv/bin/echelon study --workers 2

Measured by code {code} (a digest of the packages that simulate); page of revision {revision}.

Intervals are 95 % (Student's t over cases, of logarithms of ratios). A star marks ratios that differ from 1 beyond chance, corrected for
all in the same table (Holm). Iteration time is the mean over jobs of the mean over a job's iterations. *Above bound* is the
distance from a lower bound that no scheduler can beat, which includes what the bound itself lacks. Coflow is SEBF order
with MADD rates, with each collective or micro-batch a Coflow (`collective`), or with a whole EchelonFlow as one (`group`).
Two policies bear EchelonFlow's name: `order=tardiness` is the paper's own order, to the letter; `order=due` is what the
policy does if nothing is said."""

STEADY = """\
Two to four jobs of random patterns share one link or an oversubscribed leaf-spine. Alone, each would keep its slowest
link busy for a quarter to twice as long as it computes. Each has so many iterations that all last about equally long; what counts begins when
every job has ended two, and ends with the first job. No rank begins an iteration before every
rank has done its first computation of the one before. A pipeline whose first stage waits for nobody would pile up flows
without end, and have no steady state. *Worst slowdown* is that of the job that is slowed down most, against its least time
alone: the mean over cases. The bound is the iteration times of least sum that respect each job's time
alone and every link's capacity (`echelonflow/scheduling/steady.py`). Wins, ties and losses are against Coflow `collective`.
*Starves*: cases in which a job ends fewer than four iterations while all run. `aalo, scaled` has a first queue of
a tenth of the median Coflow's bytes. `coflow(order=job)` is EchelonFlow's order of jobs without its arrangements. `layer-priority` is the rule of
P3 and ByteScheduler, given to the network."""

LOADS = """\
*Load* is what the jobs ask of the busiest link if each goes as fast as it would alone, over what the link has. Beyond 1 not all
can. Sizes are scaled to it, with one factor for all jobs of a case. Ratios to fair sharing; the last line is what the bound leaves to be had."""

STEADY_PATTERNS = """\
Two jobs of one pattern, in steady state. Mean iteration time relative to Coflow `collective`; below 1 is better than it.
Beside parameter servers, layers of the next iteration wait for their own pulls alone: there the path across iterations matters."""

FABRICS = """\
A leaf-spine of 8 hosts per leaf, two-to-one oversubscribed, with a job for every four hosts; ranks are anywhere. Mean iteration
time over fair sharing with its interval, and the slowdown of the job that is slowed down most, the mean over cases."""

SENSITIVITY = """\
Mixed jobs of their own, each policy as it is meant to be and with one thing at a time that is not. *Classes*: its order is
folded into so many traffic classes as the controller does it. There is strict priority between them, and fair shares within;
flows that would find no class are held back at their senders. *Latency*: a decision is in
force so much later, as a share of the mean iteration time that the jobs can keep up together. A flow that no decision
has reached takes what all others leave. *Profile error*: each computation is declared longer or
shorter by up to so much, and arrangements and clocks follow from that. *Size error*: each transfer is declared larger or smaller by up to so much. *Jitter*: each computation ends late by an
exponential time, whose mean is so much of the mean computation. Fair sharing decides nothing and reads no profile, so only
jitter makes another basis of it. `exact` is without any of it."""

FEW_QUEUES = """\
Eight mixed jobs on the 32 hosts of such a leaf-spine. Each order is folded into few classes, with strict priority between them and
fair shares within. `links` is the testbed's own folding: it keeps flows apart only where they meet, and holds back what finds no class.
`top`: the first places have a class each, the rest the last one (Sincronia). `balanced`: as many places in each class (Varys).
`equal-bytes`: as many bytes in each. `max-k-cut` is Crux's compression. Above 1 is what few classes cost. Rates that
a policy allocates, such as Coflow's, are lost with any number of classes."""

ABLATIONS = """\
`clock(pace=alone)`: every job is to go as fast as if it were alone. `clock(until=own)`: no path is followed into the next iteration.
`lookahead(tries=0)`: the best candidate, without a search. `lookahead(candidates=few)`: `clock`, Coflow properly grouped and fair sharing
alone. Above 1 the part is worse than the whole."""

ARRIVALS = """\
Twelve jobs of all patterns, of 5 to 40 iterations each, arrive at random and leave when they are done. Load is what they send over
what the busiest link could carry while they arrive. The time from arrival to end is the mean over jobs; the
slowdown is against the least time alone, its 95th percentile within a case, the mean over cases."""

CLOSED = """\
From here on every job has two iterations, and is gone. So a policy is rewarded for serving short jobs first: they leave, and
the others have the network to themselves. What holds here need not hold for jobs that go on, for which see above. Tardiness is the weighted sum over
all groups. These sections hold what was known first, and are kept for comparison with the papers, which measure such batches."""

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
