"""`python -m traffic.agent`: one emulated host's agent."""

import sys

from traffic.agent.agent import main

sys.exit(main(sys.argv[1:]))
