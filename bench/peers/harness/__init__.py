"""The runner: installs engines, starts their services, drives them, measures, prints one table."""
