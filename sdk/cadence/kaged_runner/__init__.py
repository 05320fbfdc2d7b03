"""Runs a package of the catalog in its cage, or tells what it is. kaged starts it; nobody else."""
