"""The demonstration: two organisations with their teams, people who may sign in, and a workload."""
