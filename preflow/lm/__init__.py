"""Language-model policies: encoding, log-probabilities, reference store, training, sampling."""
