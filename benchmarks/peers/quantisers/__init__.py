"""Other quantisers on the same net, start, patches and number of steps, each in an environment of its own."""
