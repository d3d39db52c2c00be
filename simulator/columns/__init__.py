"""Training jobs simulated in columns: event loop, progress of DAGs and what policies see, as loops that are compiled.

What happens is what `simulator.engine` with `simulator.training` says, to the bit (tests hold one to the other), where
nothing departs from the ideal. `simulator.fluid` chooses.
"""
