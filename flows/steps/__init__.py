"""Steps of the retrain flow: each takes the run's context and leaves whole artefacts in the run folder."""
