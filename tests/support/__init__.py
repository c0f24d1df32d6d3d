"""Twins and fixtures that the tests of several parts share."""
