"""Every picture; the only place that knows matplotlib."""
