"""Drift: is each cohort of the fleet still looking at what the model was made for?"""
