"""Checkers that others wrote, run against a live server: ``python -m tests.external``, or ``make conformance``."""
