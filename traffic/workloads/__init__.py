"""What jobs there are: paradigms, collectives, measured profiles, and other people's formats and traces."""
