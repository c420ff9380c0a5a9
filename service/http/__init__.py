"""HTTP plumbing shared by all endpoints: parameters, bodies, ETags, time limits, concurrency, problems."""
