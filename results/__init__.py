"""From what a run left behind to tables, a verdict, pictures and a report."""
