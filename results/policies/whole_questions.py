#!/usr/bin/env python3
"""SRTF with whole questions: all jobs come with each, and all are put in order. For the table of README.md; write yours like
scenarios/policies/template.py."""

