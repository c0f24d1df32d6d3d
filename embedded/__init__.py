"""The whole platform on one machine: real PostgreSQL and Redis from wheels, services, workers, flows, under one
supervisor (`edgeloop up`). Only for people who try or develop it; a cluster uses the compose file or the chart.
"""
