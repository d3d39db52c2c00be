"""The experiment files that ship (`*.yaml`); what carries them out is the package `echelon`."""
