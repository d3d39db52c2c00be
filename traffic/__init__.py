"""Training jobs as traffic: profiles, paradigms (DAG generators), the EchelonFlow API and the replay agent."""
