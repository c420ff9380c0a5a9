"""Learning from comparisons (Kadota et al.): pairs worth asking, a Bayesian ranker, rounds, severity. Needs torch."""
