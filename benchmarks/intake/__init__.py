"""Parts of `edgeloop bench telemetry`: a fleet, a load generator, a server that discards, failures, the plan."""
